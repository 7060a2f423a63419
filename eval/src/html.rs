//! Pieces of the reports: self-contained pages without network or script.

use crate::theme;

/// Returns a whole page, with a list of its parts if there are several.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    let body = with_contents(body);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>\n",
        theme::of_page()
    )
}

/// Inserts the list of headings, with links, before the first heading.
fn with_contents(body: &str) -> String {
    const HEADING: &str = "<h2>";
    let parts: Vec<&str> = body.split(HEADING).collect();
    let Some((first, parts)) = parts.split_first().filter(|(_, parts)| parts.len() > 1) else {
        return body.to_owned();
    };
    let name = |part: &str| part.split("</h2>").next().unwrap_or_default().to_owned();
    let links: String = (1..)
        .zip(parts)
        .map(|(number, part)| format!("<li><a href=\"#part-{number}\">{}</a></li>", name(part)))
        .collect();
    let parts: String =
        (1..).zip(parts).map(|(number, part)| format!("<h2 id=\"part-{number}\">{part}")).collect();
    format!("{first}<nav><ol>{links}</ol></nav>{parts}")
}

/// Returns a table; the first column names the row. In a cell like `1.53 [1.41–1.70]` the interval goes below its
/// number.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_several_parts_has_a_list_of_them() {
        let page = page("t", "<p>in short</p><h2>One</h2>a<h2>Two</h2>b");
        let order = [
            "in short",
            "<a href=\"#part-1\">One</a>",
            "<a href=\"#part-2\">Two</a>",
            "<h2 id=\"part-1\">One</h2>a",
        ];
        let places: Vec<_> = order.iter().map(|part| page.find(part).expect(part)).collect();
        assert!(places.is_sorted(), "{page}");
        assert!(!super::page("t", "<h2>One</h2>").contains("<nav>"));
    }
}
