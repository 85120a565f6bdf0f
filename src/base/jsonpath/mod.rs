//! JSONPath templates in kubectl's syntax (`client-go/util/jsonpath`): `{.items[*].metadata.name}{"\n"}`, and columns
//! of such paths (`kubectl/pkg/cmd/get/customcolumn.go`). Pure, and bounded: a template and its results take at most
//! [`limits::TEMPLATE_STEPS`](crate::base::limits::TEMPLATE_STEPS) steps.
//!
//! `$` and `@` are the current value, as in kubectl: within a range the element.

pub mod columns;
mod eval;
mod parse;
mod show;

use serde_json::Value;

use eval::Eval;

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(Vec<Part>);

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Path(Vec<Step>),
    /// `{range PATH}…{end}`: the parts for each value of the path.
    Range(Vec<Step>, Vec<Part>),
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `.name`, `['name']`
    Field(String),
    /// `.*`, `[*]`
    All,
    /// `..`
    Descend,
    /// `[3]`
    Index(i64),
    /// `[from:to:step]`
    Slice { from: Option<i64>, to: Option<i64>, step: Option<i64> },
    /// `['a','b']`, `[0,2]`
    Union(Vec<Step>),
    /// `[?(@.a == "b")]`
    Filter { left: Operand, operator: Operator, right: Operand },
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Value(Value),
}

/// How two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// The left side exists; there is no right side.
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn parse(text: &str) -> Result<Template, String> {
        parse::template(text).map(Template)
    }

    /// The output for a value. Missing fields print nothing.
    ///
    /// # Errors
    /// An index is beyond the end of a list, values cannot be compared, or the evaluation takes too many steps.
    pub fn render(&self, value: &Value) -> Result<String, String> {
        let mut out = String::new();
        Eval::default().parts(&self.0, value, &mut out)?;
        Ok(out)
    }
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct Path(Vec<Step>);

impl Path {
    /// Parses a path as in columns: `.metadata.name`, `metadata.name`, `{.metadata.name}`.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn parse(text: &str) -> Result<Path, String> {
        parse::relaxed(text).map(Path)
    }

    /// The values at the path.
    ///
    /// # Errors
    /// As for [`Template::render`].
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<&'v Value>, String> {
        Eval::default().find(&self.0, value)
    }
}

#[cfg(test)]
mod tests;
