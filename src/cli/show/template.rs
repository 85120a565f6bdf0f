//! `-o jsonpath=…` and `-o custom-columns=…`: the parts of objects that a user wants to see.

use serde_json::Value;

use super::table::List;
use crate::base::jsonpath::Template as JsonPath;
use crate::base::jsonpath::columns::Columns;
use crate::base::logging::one_line;

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    JsonPath(JsonPath),
    Columns(Columns),
}

impl Template {
    /// Parses the text of `-o`; `None` for another format.
    ///
    /// # Errors
    /// A description of the error in the template.
    pub fn parse(format: &str) -> Result<Option<Template>, String> {
        let (name, text) = format.split_once('=').unwrap_or((format, ""));
        match name {
            "jsonpath" if text.is_empty() => {
                Err("template format specified but no template given".to_owned())
            }
            "jsonpath" => {
                let parsed = JsonPath::parse(text);
                parsed
                    .map(|it| Some(Template::JsonPath(it)))
                    .map_err(|why| format!("error parsing jsonpath {text}, {why}"))
            }
            "custom-columns" => Columns::parse(text).map(|it| Some(Template::Columns(it))),
            _ => Ok(None),
        }
    }

    /// The output for an object, or for the items of a list.
    ///
    /// # Errors
    /// Those of [`JsonPath::render`].
    pub fn print(&self, object: &Value, no_headers: bool) -> Result<String, String> {
        let columns = match self {
            Template::JsonPath(path) => {
                return path.render(object).map_err(|why| format!("error executing jsonpath: {why}"));
            }
            Template::Columns(columns) => columns,
        };
        let items = match object.get("items").and_then(Value::as_array) {
            Some(items) => items.as_slice(),
            None => std::slice::from_ref(object),
        };
        let mut rows = Vec::new();
        for item in items {
            let cells = columns.cells(item).map_err(|why| format!("error executing jsonpath: {why}"))?;
            rows.push(cells.iter().map(|cell| one_line(cell)).collect());
        }
        let headings = (!no_headers).then(|| columns.headings());
        match (rows.is_empty(), headings) {
            // kubectl prints the headings of an empty list, too.
            (true, Some(headings)) => Ok(List::default().render(None, vec![headings])),
            (_, headings) => Ok(List::default().render(headings, rows)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_shown_as_kubectl_shows_them() {
        let list =
            json!({"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "longer", "uid": "u"}}]});
        let print = |format: &str, object: &Value, no_headers| {
            Template::parse(format).unwrap().unwrap().print(object, no_headers)
        };
        let columns = "custom-columns=N:.metadata.name,UID:.metadata.uid";
        assert_eq!(print(columns, &list, false).unwrap(), "N        UID\na        <none>\nlonger   u\n");
        assert_eq!(print(columns, &list["items"][1], true).unwrap(), "longer   u\n");
        assert_eq!(print(columns, &json!({"items": []}), false).unwrap(), "N     UID\n");
        assert_eq!(print("jsonpath={.items[*].metadata.name}", &list, false).unwrap(), "a longer");
        assert!(print("jsonpath={.items[9]}", &list, false).unwrap_err().contains("out of bounds"));
        assert!(Template::parse("jsonpath").is_err() && Template::parse("custom-columns=").is_err());
        assert_eq!(Template::parse("wide"), Ok(None));
    }
}
