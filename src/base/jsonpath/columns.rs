//! `-o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image`. Pure.

use serde_json::Value;

use super::{Path, show};
use crate::base::limits;

/// Parsed columns: heading and path.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns(Vec<(String, Path)>);

impl Columns {
    /// Parses columns.
    ///
    /// # Errors
    /// The first mistake, in kubectl's words.
    pub fn parse(spec: &str) -> Result<Columns, String> {
        if spec.is_empty() {
            return Err("custom-columns format specified but no custom columns given".to_owned());
        }
        let mut all = Vec::new();
        for column in spec.split(',') {
            let (heading, path) = match column.split(':').collect::<Vec<_>>().as_slice() {
                [heading, path] => (*heading, *path),
                _ => {
                    let why = "expected <header>:<json-path-expr>";
                    return Err(format!("unexpected custom-columns spec: {column}, {why}"));
                }
            };
            all.push((heading.to_owned(), Path::parse(path)?));
            if all.len() > limits::TEMPLATE_COLUMNS {
                return Err(format!("there may be {} columns", limits::TEMPLATE_COLUMNS));
            }
        }
        Ok(Columns(all))
    }

    /// The headings.
    #[must_use]
    pub fn headings(&self) -> Vec<String> {
        self.0.iter().map(|(heading, _)| heading.clone()).collect()
    }

    /// The row of an object.
    ///
    /// # Errors
    /// As for a template.
    pub fn cells(&self, object: &Value) -> Result<Vec<String>, String> {
        let cell = |(_, path): &(String, Path)| {
            let found = path.find(object)?;
            let texts: Vec<String> = found.into_iter().map(show::go).collect();
            Ok(if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") })
        };
        self.0.iter().map(cell).collect()
    }
}
