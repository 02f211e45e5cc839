//! `rxlane-lab sim run`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use rxlane_policy::rate;
use rxlane_sim::SimError;
use rxlane_sim::output::{Format, write};
use rxlane_sim::run::{Row, run_sweep};
use rxlane_sim::scenario::load;
use rxlane_sim::stop::Stop;
use rxlane_sim::sweep::{MANY_POINTS, Sweep};

use super::partial::Partial;
use super::text;
use crate::{one_line, output, tidy};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Scenario (docs/src/reference/scenarios.md explains every key); - is standard input
    #[arg(required_unless_present = "config")]
    file: Option<PathBuf>,
    /// The same as a named option
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Change a key of the file (numbers may end with k, M or G); may be repeated
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
    /// Write results in the form that the bench has, too, by the file's end: .json, .csv or .parquet (docs/src/reference/results.md)
    #[arg(long, value_name = "OUT", group = "format")]
    tidy: Option<PathBuf>,
    /// Go on with an interrupted sweep
    #[arg(long)]
    resume: bool,
    /// Run more than a million points
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let file = args.file.as_deref().or(args.config.as_deref());
    let file = match file.unwrap_or(Path::new("-")) {
        path if path == Path::new("-") => Path::new("/dev/stdin"),
        path => path,
    };
    let set: Vec<String> = args.set.iter().map(|s| with_number(s)).collect();
    let loaded = load(file, &set).map_err(one_line)?;
    let sweep = Sweep::new(&loaded).map_err(one_line)?;
    let points = sweep.len();
    if points > MANY_POINTS && !args.yes {
        return Err(one_line(SimError::TooManyPoints { points }));
    }
    rxlane_system::stop::listen();
    let (out, format) = match (&args.json, &args.csv, &args.parquet, &args.tidy) {
        (Some(path), ..) => (Some(path), Some(Form::Own(Format::Json))),
        (_, Some(path), ..) => (Some(path), Some(Form::Own(Format::Csv))),
        (_, _, Some(path), _) => (Some(path), Some(Form::Own(Format::Parquet))),
        (.., Some(path)) => (Some(path), Some(Form::Tidy(tidy::format(path)?))),
        _ => (None, None),
    };
    if let Some(path) = out.filter(|p| *p != Path::new("-")) {
        output::will_take(path)?;
    }
    let swept = serde_json::to_string(&loaded.table).map_err(one_line)?;
    let (mut partial, mut rows) = if points > 1 {
        let path = partial_path(file, out.map(PathBuf::as_path));
        let (partial, rows) = Partial::open(path, &swept, args.resume)?;
        (Some(partial), rows)
    } else {
        (None, Vec::new())
    };
    let bar = progress(points as u64, rows.len() as u64);
    let done: HashSet<usize> = rows.iter().map(|r| r.index).collect();
    let todo = (0..points).filter(|i| !done.contains(i));
    let stop = Stop::from(rxlane_system::stop::flag());
    run_sweep(&sweep, todo, &stop, |row| {
        if let Some(partial) = &mut partial {
            partial.add(&row).map_err(SimError::Output)?;
        }
        rows.push(row);
        bar.inc(1);
        Ok(())
    })
    .map_err(one_line)?;
    bar.finish_and_clear();
    if stop.is_asked() && rows.len() < points {
        return Err(one_line(SimError::Interrupted {
            done: rows.len(),
            points,
            path: partial.map_or_else(|| "no file".into(), |p| p.path()),
        }));
    }
    rows.sort_by_key(|r| r.index);
    let written = write_out(&mut rows, out.map(PathBuf::as_path), format);
    let written = written.and_then(|()| output::finish());
    if let (Err(e), Some(partial)) = (&written, &partial) {
        return Err(format!(
            "{e}; what was computed is in {}: --resume goes on from it",
            partial.path()
        ));
    }
    written?;
    if let Some(partial) = partial {
        partial.remove();
    }
    Ok(())
}

/// How results are written.
#[derive(Clone, Copy)]
enum Form {
    /// A row a point.
    Own(Format),
    /// As those of the bench.
    Tidy(rxlane_results::Format),
}

fn write_out(rows: &mut [Row], out: Option<&Path>, format: Option<Form>) -> Result<(), String> {
    let Some(format) = format else {
        print!("{}", text::of(rows));
        return Ok(());
    };
    let mut bytes = Vec::new();
    match format {
        Form::Own(format) => write(rows, format, &mut bytes).map_err(one_line)?,
        Form::Tidy(format) => {
            let json = serde_json::to_vec(rows).map_err(one_line)?;
            bytes = tidy::encoded(&json, format)?;
        }
    }
    match out.filter(|p| *p != Path::new("-")) {
        None => output::bytes(&bytes),
        Some(path) => {
            output::file(path, &bytes)?;
            eprintln!("wrote {}", path.display());
        }
    }
    Ok(())
}

/// `KEY=1.6M` as `KEY=1600000`; everything else as it is.
fn with_number(setting: &str) -> String {
    let multiple = |value: &str| value.ends_with(['k', 'M', 'G']);
    match setting.split_once('=') {
        Some((key, value)) if multiple(value.trim()) => match rate::parse(value) {
            Ok(number) => format!("{key}={number:?}"),
            Err(_) => setting.to_owned(),
        },
        _ => setting.to_owned(),
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
