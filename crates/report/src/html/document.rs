//! Frame of all pages: content security policy, style, library, data, script.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::markup::{Html, script_json};

const UPLOT_SCRIPT: &str = include_str!("../../assets/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../../assets/uPlot.LICENSE");
const STYLE: &str = include_str!("../../assets/report.css");

/// Parts of a page in addition to the shared style and library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// Set-up of its charts.
    pub(crate) script: &'static str,
    /// Style of its own elements.
    pub(crate) style: &'static str,
}

/// The source expression of a content security policy that allows exactly this inline script.
fn script_hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script.as_bytes())))
}

/// Writes a whole page; its script reads `data`.
///
/// # Errors
/// Errors of the writer.
pub(crate) fn write_document(
    out: &mut impl Write,
    title: &str,
    parts: Parts,
    body: &Html,
    data: &impl Serialize,
) -> io::Result<()> {
    let Parts { script, style } = parts;
    // The MIT licence requires its text in every copy.
    let library = format!("/*\n{UPLOT_LICENSE}\n*/\n{UPLOT_SCRIPT}");
    let hashes = format!("{} {}", script_hash(&library), script_hash(script));
    let mut head = Html::new();
    head.element("title", title);
    let data = script_json(data).map_err(io::Error::other)?;
    writeln!(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; \
         form-action 'none'; style-src 'unsafe-inline'; script-src {hashes}\">"
    )?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(out, "<meta name=\"color-scheme\" content=\"light dark\">{}", head.as_str())?;
    writeln!(out, "<style>{UPLOT_STYLE}\n{STYLE}{style}</style></head><body>")?;
    writeln!(out, "{}", body.as_str())?;
    writeln!(out, "<script type=\"application/json\" id=\"data\">{data}</script>")?;
    writeln!(out, "<script>{library}</script>\n<script>{script}</script>\n</body></html>")?;
    out.flush()
}
