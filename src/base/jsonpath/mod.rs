//! JSONPath templates as kubectl has them (`client-go/util/jsonpath`): `{.items[*].metadata.name}{"\n"}`, and columns of
//! such paths (`kubectl/pkg/cmd/get/customcolumn.go`). Pure, and bounded: neither a template nor what it finds can take
//! more than [`limits::TEMPLATE_STEPS`](crate::base::limits::TEMPLATE_STEPS) steps.
//!
//! `$` and `@` are the value at hand, as in kubectl: within a range the element.

pub mod columns;
mod eval;
mod parse;
mod show;

use serde_json::Value;

use eval::Eval;

/// A template that was understood.
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
    /// Without a right side: there is a left one.
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Template {
    /// Understands a template.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Template, String> {
        parse::template(text).map(Template)
    }

    /// What it prints of a value. Fields that are not there print nothing.
    ///
    /// # Errors
    /// An index is beyond the end of a list, values cannot be compared, or it takes too long.
    pub fn render(&self, value: &Value) -> Result<String, String> {
        let mut out = String::new();
        Eval::default().parts(&self.0, value, &mut out)?;
        Ok(out)
    }
}

/// A path that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Path(Vec<Step>);

impl Path {
    /// Understands a path as columns have it: `.metadata.name`, `metadata.name`, `{.metadata.name}`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Path, String> {
        parse::relaxed(text).map(Path)
    }

    /// The values at it.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<&'v Value>, String> {
        Eval::default().find(&self.0, value)
    }
}

#[cfg(test)]
mod tests;
