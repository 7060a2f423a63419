//! Pieces of the reports: self-contained pages without network or script.

use crate::theme;

/// A whole page.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>\n",
        theme::of_page()
    )
}

/// A table; the first column is the row's name. Of `1.53 [1.41–1.70]` the interval goes below its number.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let content = |cell: &str| match cell.split_once(" [") {
        Some((number, interval)) => format!("{}<small>[{}</small>", escape(number), escape(interval)),
        None => escape(cell),
    };
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| -> String {
        cells.map(|cell| format!("<{tag}>{}</{tag}>", content(cell))).collect()
    };
    let head = cells("th", &mut header.iter().copied());
    let body: String = rows
        .iter()
        .map(|row| format!("<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str))))
        .collect();
    format!("<div class=\"wide\"><table><tr>{head}</tr>{body}</table></div>")
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
