//! Rows as aligned columns, for people.

use unicode_width::UnicodeWidthStr;

use crate::failure::Failure;
use crate::output::Output;

/// The number of rows that decide the widths of the columns.
const MEASURED_ROWS: usize = 1000;

/// The greatest width that a column is aligned to. Longer cells are written whole.
const WIDEST: usize = 60;

/// A column of a grid.
pub(crate) struct GridColumn {
    pub(crate) name: String,
    pub(crate) is_number: bool,
}

/// Writes rows under a header. The first rows are kept until the widths are known.
pub(crate) struct Grid {
    columns: Vec<GridColumn>,
    kept: Vec<Vec<String>>,
    /// Known once the header is written.
    widths: Option<Vec<usize>>,
}

impl Grid {
    pub(crate) fn new(columns: Vec<GridColumn>) -> Grid {
        Grid { columns, kept: Vec::new(), widths: None }
    }

    /// Adds a row, which has a cell for each column. Cells have no control characters.
    pub(crate) fn row(&mut self, cells: Vec<String>, output: &mut Output) -> Result<(), Failure> {
        if let Some(widths) = &self.widths {
            return self.print(&cells, widths, output);
        }
        self.kept.push(cells);
        if self.kept.len() == MEASURED_ROWS { self.begin(output) } else { Ok(()) }
    }

    /// Writes the rows that are left.
    pub(crate) fn finish(mut self, output: &mut Output) -> Result<(), Failure> {
        if self.widths.is_none() { self.begin(output) } else { Ok(()) }
    }

    fn begin(&mut self, output: &mut Output) -> Result<(), Failure> {
        let width = |at: usize, column: &GridColumn| {
            let cells = self.kept.iter().map(|cells| cells[at].width().min(WIDEST));
            cells.max().unwrap_or(0).max(column.name.width())
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(|(at, column)| width(at, column)).collect();
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        self.print(&names, &widths, output)?;
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        self.print(&rules, &widths, output)?;
        for cells in std::mem::take(&mut self.kept) {
            self.print(&cells, &widths, output)?;
        }
        self.widths = Some(widths);
        Ok(())
    }

    fn print(&self, cells: &[String], widths: &[usize], output: &mut Output) -> Result<(), Failure> {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            let (before, after) = if column.is_number { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
            line += &format!("{before}{cell}{after}  ");
        }
        output.line(line.trim_end())
    }
}
