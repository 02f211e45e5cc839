//! `compose-page MODEL.wasm PAGE OUT`: the page as one file, with its styles, its scripts and the model in it. So it opens from a
//! disk as from a server, can be sent by mail, and needs nothing from anywhere.

mod modules;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use wasm_bindgen_cli_support::Bindgen;

/// What cannot be put together, in one line.
#[derive(Debug, thiserror::Error)]
enum ComposeError {
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {message}")]
    Module { path: PathBuf, message: String },
    #[error("{path}: no glue can be made for it: {message}")]
    Glue { path: PathBuf, message: String },
    #[error("index.html has no `{0}` to replace")]
    Mark(&'static str),
    #[error("usage: compose-page MODEL.wasm PAGE OUT")]
    Usage,
}

fn main() -> ExitCode {
    match run() {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("compose-page: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, ComposeError> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, page, out] = &arguments[..] else {
        return Err(ComposeError::Usage);
    };
    let (glue, wasm) = glue(model)?;
    let worker = format!("{glue}\n{}", read(&page.join("worker.js"))?);
    let parts = [
        (
            "<!-- style -->",
            element("<style>", &read(&page.join("style.css"))?, "</style>"),
        ),
        (
            "<!-- worker -->",
            element(
                r#"<script type="text/plain" id="worker">"#,
                &worker,
                "</script>",
            ),
        ),
        (
            "<!-- model -->",
            element(
                r#"<script type="text/plain" id="model">"#,
                &STANDARD.encode(&wasm),
                "</script>",
            ),
        ),
        (
            "<!-- page -->",
            element(
                r#"<script type="module">"#,
                &modules::joined(&page.join("main.js"))?,
                "</script>",
            ),
        ),
    ];
    let mut text = read(&page.join("index.html"))?;
    for (mark, part) in parts {
        if !text.contains(mark) {
            return Err(ComposeError::Mark(mark));
        }
        text = text.replacen(mark, &part, 1);
    }
    let at = |source| ComposeError::File {
        path: out.clone(),
        source,
    };
    std::fs::create_dir_all(out).map_err(at)?;
    std::fs::write(out.join("index.html"), &text).map_err(at)?;
    Ok(format!(
        "{}: {} KiB, of which the model {} KiB",
        out.join("index.html").display(),
        text.len() >> 10,
        wasm.len() >> 10
    ))
}

/// An element with this text, in which nothing ends it early.
fn element(begin: &str, text: &str, end: &str) -> String {
    let inner = text
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--");
    format!("{begin}\n{inner}\n{end}")
}

/// The script that calls the model, and the model as that script wants it. The version of what makes them is that of the
/// library that the model was compiled with, because both are in one lock file.
fn glue(model: &Path) -> Result<(String, Vec<u8>), ComposeError> {
    let refused = |message: String| ComposeError::Glue {
        path: model.to_owned(),
        message: message.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(model).typescript(false);
    bindgen
        .remove_name_section(true)
        .remove_producers_section(true);
    let bindgen = bindgen.no_modules(true);
    let made = bindgen.and_then(Bindgen::generate_output);
    let mut made = made.map_err(|e| refused(format!("{e:#}")))?;
    let script = made.js().to_owned();
    Ok((script, made.wasm_mut().emit_wasm()))
}

fn read(path: &Path) -> Result<String, ComposeError> {
    std::fs::read_to_string(path).map_err(|source| ComposeError::File {
        path: path.to_owned(),
        source,
    })
}
