//! A verdict must be able to fail: without data, and on a model that lacks what the row claims.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use rxlane_papers::{Data, PAPERS, Rows, Use, judge, references, select, wrong_models};

#[test]
fn without_data_only_formulas_and_constants_are_met() {
    let mut empty = BTreeMap::new();
    for paper in &PAPERS {
        let mut data = Data::default();
        for file in paper.experiments {
            data.put(file, Rows::new(Vec::new()));
        }
        empty.insert(paper.name, data);
    }
    let rows = select(&["all".into()]).unwrap();
    for v in judge(&rows, &empty).unwrap() {
        let needs_none = matches!(v.usage, Use::Arithmetic | Use::Constant);
        assert_eq!(v.holds(), needs_none, "{}: {v:?}", v.id);
    }
}

#[test]
fn every_rule_names_its_quantity_its_tolerance_and_its_effect() {
    let rows = select(&["all".into()]).unwrap();
    for v in judge(&rows, &BTreeMap::new()).unwrap() {
        assert_eq!(v.rule, "none", "without a paper's data there is no rule");
    }
    let data = PAPERS
        .iter()
        .map(|paper| {
            let mut data = Data::default();
            for file in paper.experiments {
                data.put(file, Rows::new(Vec::new()));
            }
            (paper.name, data)
        })
        .collect();
    for v in judge(&rows, &data).unwrap() {
        for text in [&v.judged, &v.rule, &v.effect] {
            assert!(!text.is_empty() && text != "none", "{}: {v:?}", v.id);
        }
    }
}

#[test]
fn what_the_model_meets_some_wrong_model_does_not() {
    let rows = select(&["all".into()]).unwrap();
    let uses: BTreeMap<String, Use> = references().into_iter().map(|r| (r.id, r.usage)).collect();
    for matrix in wrong_models(&rows, &AtomicBool::new(false), || ()).unwrap() {
        println!("{matrix}");
        for (id, rejecting) in matrix.rejections() {
            if matches!(uses[id], Use::Fit | Use::Predict) {
                assert!(rejecting > 0, "{id}: no wrong model breaks its rule");
            }
        }
    }
}
