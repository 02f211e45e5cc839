//! `rxlane sim run`.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use rxlane_sim::SimError;
use rxlane_sim::output::{Format, write};
use rxlane_sim::run::{Row, run_sweep};
use rxlane_sim::scenario::load;
use rxlane_sim::sweep::{MANY_POINTS, Sweep};

use super::partial::Partial;
use super::text;
use crate::one_line;

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Scenario (docs/src/reference/scenarios.md explains every key)
    file: PathBuf,
    /// Change a key of the file; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write JSON, to standard output without a file
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-", group = "format")]
    json: Option<PathBuf>,
    /// Write CSV, to standard output without a file
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-", group = "format")]
    csv: Option<PathBuf>,
    /// Write Apache Parquet
    #[arg(long, value_name = "OUT", group = "format")]
    parquet: Option<PathBuf>,
    /// Go on with an interrupted sweep
    #[arg(long)]
    resume: bool,
    /// Run more than a million points
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let loaded = load(&args.file, &args.set).map_err(one_line)?;
    let sweep = Sweep::new(&loaded).map_err(one_line)?;
    let points = sweep.len();
    if points > MANY_POINTS && !args.yes {
        return Err(one_line(SimError::TooManyPoints { points }));
    }
    rxlane_system::stop::listen();
    let (out, format) = match (&args.json, &args.csv, &args.parquet) {
        (Some(path), ..) => (Some(path), Some(Format::Json)),
        (_, Some(path), _) => (Some(path), Some(Format::Csv)),
        (.., Some(path)) => (Some(path), Some(Format::Parquet)),
        _ => (None, None),
    };
    let swept = serde_json::to_string(&loaded.table).map_err(one_line)?;
    let (mut partial, mut rows) = if points > 1 {
        let path = partial_path(&args.file, out.map(PathBuf::as_path));
        let (partial, rows) = Partial::open(path, &swept, args.resume)?;
        (Some(partial), rows)
    } else {
        (None, Vec::new())
    };
    let bar = progress(points as u64, rows.len() as u64);
    let done: HashSet<usize> = rows.iter().map(|r| r.index).collect();
    let todo = (0..points).filter(|i| !done.contains(i));
    let stop = rxlane_system::stop::flag();
    run_sweep(&sweep, todo, stop, |row| {
        if let Some(partial) = &mut partial {
            partial.add(&row).map_err(SimError::Output)?;
        }
        rows.push(row);
        bar.inc(1);
        Ok(())
    })
    .map_err(one_line)?;
    bar.finish_and_clear();
    if stop.load(Ordering::Relaxed) && rows.len() < points {
        return Err(one_line(SimError::Interrupted {
            done: rows.len(),
            points,
            path: partial.map_or_else(|| "no file".into(), |p| p.path()),
        }));
    }
    rows.sort_by_key(|r| r.index);
    output(&mut rows, out.map(PathBuf::as_path), format)?;
    if let Some(partial) = partial {
        partial.remove();
    }
    Ok(())
}

fn output(rows: &mut [Row], out: Option<&Path>, format: Option<Format>) -> Result<(), String> {
    let Some(format) = format else {
        print!("{}", text::of(rows));
        return Ok(());
    };
    match out.filter(|p| *p != Path::new("-")) {
        None => {
            let mut bytes = Vec::new();
            write(rows, format, &mut bytes).map_err(one_line)?;
            // A reader that has seen enough is no error.
            let _ = std::io::stdout().write_all(&bytes);
            Ok(())
        }
        Some(path) => {
            let mut file = std::fs::File::create(path).map_err(|e| {
                format!(
                    "{}: {e}: check the path and its permissions",
                    path.display()
                )
            })?;
            write(rows, format, &mut file).map_err(one_line)?;
            eprintln!("wrote {}", path.display());
            Ok(())
        }
    }
}

fn partial_path(file: &Path, out: Option<&Path>) -> PathBuf {
    let base = match out.filter(|p| *p != Path::new("-")) {
        Some(out) => out.to_owned(),
        None => PathBuf::from(file.file_name().unwrap_or_default()),
    };
    let mut name = base.into_os_string();
    name.push(".partial");
    name.into()
}

/// Shown on a terminal after two seconds.
fn progress(points: u64, done: u64) -> ProgressBar {
    let bar = ProgressBar::new(points).with_position(done);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} points, {eta} to go") {
        bar.set_style(style);
    }
    bar
}
