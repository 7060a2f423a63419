//! Pieces of the reports: self-contained pages without network or script.

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1240px;margin:2em auto;padding:0 1em;color:#282828}\
h1{font-size:1.5em}p{max-width:62em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #ddd}\
table{border-collapse:collapse;margin:1em 0;font-size:13px}td,th{padding:3px 9px;text-align:right;\
border-bottom:1px solid #eee}td{white-space:nowrap}td:first-child,th:first-child{text-align:left}\
th.text{text-align:left}td.text{text-align:left;color:#555;white-space:normal}\
.note{background:#fff6e5;border-left:4px solid #dd8434;padding:.5em 1em}.key{display:inline-block;width:1em;\
height:1em;vertical-align:-2px;margin:0 .3em 0 1em}svg{max-width:100%;height:auto}.wide{overflow-x:auto}.wide td,.wide th{padding:3px 7px;font-size:12px;white-space:nowrap}td small{display:block;color:#777;font-size:10px}\
svg.mark{vertical-align:-1px;margin-right:.3em}svg.gantt{display:block;margin:1em 0}\
td.bad{color:#b00020;font-weight:600;white-space:normal}";

/// A whole page.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>\n"
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
    format!("<table><tr>{head}</tr>{body}</table>")
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
