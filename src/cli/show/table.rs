//! Columns made of tab-separated cells, as Go's text/tabwriter does it (kubectl's tables). Pure.

use crate::base::logging::one_line;

/// Width of kubectl's narrowest column in a list, and the padding after a column.
const LIST_MINIMUM: usize = 6;
const LIST_PADDING: usize = 3;
/// Padding after a column of `describe`.
const DESCRIBE_PADDING: usize = 2;

/// A list whose columns never become narrower, so that later rows align with the first ones. Characters that control a
/// terminal are escaped.
#[derive(Debug, Default)]
pub struct List {
    widths: Vec<usize>,
}

impl List {
    /// Formats these rows, one per line; the last cell of a row is not padded. The headings are printed with the first
    /// row.
    pub fn render(&mut self, headings: Option<Vec<String>>, rows: Vec<Vec<String>>) -> String {
        let headings = headings.filter(|_| !rows.is_empty());
        let shown = |row: Vec<String>| row.iter().map(|cell| one_line(cell)).collect();
        let rows: Vec<Vec<String>> = headings.into_iter().chain(rows).map(shown).collect();
        for row in &rows {
            for (column, cell) in row.iter().enumerate() {
                let width = (cell.chars().count() + LIST_PADDING).max(LIST_MINIMUM);
                match self.widths.get_mut(column) {
                    Some(known) => *known = width.max(*known),
                    None => self.widths.push(width),
                }
            }
        }
        let mut out = String::new();
        for row in &rows {
            for (column, cell) in row.iter().enumerate() {
                out.push_str(cell);
                if column + 1 < row.len() {
                    pad(&mut out, cell, self.widths.get(column).copied().unwrap_or(0));
                }
            }
            out.push('\n');
        }
        out
    }
}

/// Aligns lines. Cells end with a tab; a column spans all consecutive lines that have a cell there, and is as wide as
/// its widest cell plus padding.
#[must_use]
pub fn align(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let mut out = String::with_capacity(text.len() * 2);
    block(&lines, &mut Vec::new(), &mut out);
    out
}

fn block(lines: &[Vec<&str>], widths: &mut Vec<usize>, out: &mut String) {
    let column = widths.len();
    let has_cell = |line: &Vec<&str>| column + 1 < line.len();
    let mut rest = lines;
    while !rest.is_empty() {
        let plain = rest.iter().position(has_cell).unwrap_or(rest.len());
        let (before, after) = rest.split_at(plain);
        write_lines(before, widths, out);
        let (run, next) = after.split_at(after.iter().position(|l| !has_cell(l)).unwrap_or(after.len()));
        if !run.is_empty() {
            let widest = run.iter().filter_map(|l| l.get(column)).map(|c| c.chars().count()).max();
            widths.push(widest.unwrap_or(0) + DESCRIBE_PADDING);
            block(run, widths, out);
            widths.pop();
        }
        rest = next;
    }
}

fn write_lines(lines: &[Vec<&str>], widths: &[usize], out: &mut String) {
    for line in lines {
        for (column, cell) in line.iter().enumerate() {
            out.push_str(cell);
            if column + 1 < line.len() {
                pad(out, cell, widths.get(column).copied().unwrap_or(0));
            }
        }
        out.push('\n');
    }
}

fn pad(out: &mut String, cell: &str, width: usize) {
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_remember_their_widths() {
        let row = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let mut list = List::default();
        let headings = || Some(row(&["NAME", "READY", "AGE"]));
        assert_eq!(list.render(headings(), Vec::new()), "", "headings alone say nothing");
        let first = list.render(headings(), vec![row(&["web-node1", "1/1", "5s"])]);
        assert_eq!(first, "NAME        READY   AGE\nweb-node1   1/1     5s\n");
        assert_eq!(list.render(None, vec![row(&["db", "0/1", "0s"])]), "db          0/1     0s\n");
    }

    #[test]
    fn no_cell_gives_the_terminal_orders() {
        let row = vec!["esc\u{1b}[31m\nx".to_owned(), "1/1".to_owned()];
        assert_eq!(List::default().render(None, vec![row]), "esc\\u{1b}[31m\\nx   1/1\n");
    }

    #[test]
    fn columns_end_where_a_line_has_no_cell() {
        let check = |text: &str, expected: &str| assert_eq!(align(text), expected);
        check("Name:\tweb\nNamespace:\tdefault\n", "Name:       web\nNamespace:  default\n");
        check("A:\tb\nplain\nLonger:\tc\n", "A:  b\nplain\nLonger:  c\n");
        check("a\tb\tc\naa\tbb\n", "a   b  c\naa  bb\n");
        check("Labels:\ta=b\n\tc=d\n", "Labels:  a=b\n         c=d\n");
        check("", "");
    }
}
