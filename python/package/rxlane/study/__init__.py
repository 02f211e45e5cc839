"""Studies: sweeps that take hours, processes or machines, and searches.

>>> import rxlane.study
>>> router = rxlane.Scenario({"seconds": 0.01, "traffic.rt_ratio": 0.3})
>>> study = rxlane.study.Study(router, {"traffic.pps": [1e6, 2e6]}, folder="loads", metrics=["loss"], replications=3)
>>> study.run()
<rxlane.study.Study loads: 2 of 2 points, 0 failed>
>>> study.table().column_names
['index', 'case', 'traffic.pps', 'loss', 'loss.ci95', 'replications', 'attempts', 'error']

What is finished is on disk, so a study goes on where it was when it is run again. Needs pyarrow: pip install 'rxlane[study]'.
"""

from rxlane.study._replications import Precision
from rxlane.study._search import Found, at_most, largest, smallest
from rxlane.study._study import Study

__all__ = ["Found", "Precision", "Study", "at_most", "largest", "smallest"]
