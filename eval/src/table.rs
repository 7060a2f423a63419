//! Text tables: aligned columns, sizes in GiB or MiB, `-` where a number does not apply.

/// Formats a table as text; the first column is left-aligned, the others right-aligned.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = header.len();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            let gap = if column == 0 { "" } else { "  " };
            text += &if column == 0 { format!("{gap}{cell}{pad}") } else { format!("{gap}{pad}{cell}") };
        }
        text.trim_end().to_string() + "\n"
    };
    let head: Vec<String> = header.iter().map(|h| h.to_string()).collect();
    let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    line(&head) + &line(&rule) + &body
}

/// Formats bytes as `12.64 GiB`, `78.0 MiB` or `0`.
pub fn size(bytes: u64) -> String {
    const MIB: f64 = (1 << 20) as f64;
    const GIB: f64 = (1 << 30) as f64;
    let value = bytes as f64;
    match bytes {
        0 => "0".to_string(),
        _ if value >= GIB => format!("{:.2} GiB", value / GIB),
        _ if value >= MIB => format!("{:.1} MiB", value / MIB),
        _ => format!("{:.1} KiB", value / 1024.0),
    }
}

/// Formats seconds as `41.2 s`.
pub fn seconds(value: f64) -> String {
    format!("{value:.1} s")
}

/// Formats a ratio as `1.39x`, or `-` without a value.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_string(), |v| format!("{v:.2}x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_under_their_heads() {
        let rows = [vec!["case".into(), "1.00x".into()], vec!["eager-opt".into(), "11.39x".into()]];
        let text = render(&["policy", "vs case"], &rows);
        assert_eq!(text, "policy     vs case\n---------  -------\ncase         1.00x\neager-opt   11.39x\n");
    }

    #[test]
    fn sizes_take_the_unit_that_fits() {
        assert_eq!(size(0), "0");
        assert_eq!(size(512), "0.5 KiB");
        assert_eq!(size(78 << 20), "78.0 MiB");
        assert_eq!(size(13_575_168_000), "12.64 GiB");
    }
}
