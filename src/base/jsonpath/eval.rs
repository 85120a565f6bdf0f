//! Evaluates paths (`client-go/util/jsonpath/jsonpath.go`, with missing keys allowed). Pure.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Operand, Operator, Part, Step, show};
use crate::base::limits;

/// One evaluation, which counts its steps.
#[derive(Debug, Default)]
pub struct Eval {
    steps: usize,
}

impl Eval {
    /// Prints parts of a template.
    pub fn parts(&mut self, parts: &[Part], value: &Value, out: &mut String) -> Result<(), String> {
        for part in parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Path(path) => {
                    let found = self.find(path, value)?;
                    let texts: Vec<String> = found.into_iter().map(show::text).collect();
                    out.push_str(&texts.join(" "));
                }
                Part::Range(path, inner) => {
                    for one in self.find(path, value)? {
                        self.parts(inner, one, out)?;
                    }
                }
            }
            if out.len() > limits::TEMPLATE_OUTPUT {
                return Err(format!("it prints more than {} bytes", limits::TEMPLATE_OUTPUT));
            }
            self.count(1)?;
        }
        Ok(())
    }

    /// The values at a path.
    pub fn find<'v>(&mut self, path: &[Step], value: &'v Value) -> Result<Vec<&'v Value>, String> {
        let mut at = vec![value];
        for step in path {
            at = self.step(step, &at)?;
            self.count(at.len())?;
        }
        Ok(at)
    }

    fn count(&mut self, steps: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(steps).saturating_add(1);
        if self.steps > limits::TEMPLATE_STEPS {
            return Err(format!("it takes more than {} steps", limits::TEMPLATE_STEPS));
        }
        Ok(())
    }

    fn step<'v>(&mut self, step: &Step, at: &[&'v Value]) -> Result<Vec<&'v Value>, String> {
        let mut found = Vec::new();
        for value in at {
            match step {
                Step::Field(name) => found.extend(value.get(name)),
                Step::All => match value {
                    Value::Array(all) => found.extend(all),
                    Value::Object(all) => found.extend(all.values()),
                    _ => {}
                },
                Step::Descend => self.descend(value, &mut found)?,
                Step::Index(index) => found.extend(one(value, *index)?),
                Step::Slice { from, to, step } => found.extend(slice(value, *from, *to, *step)?),
                Step::Union(all) => {
                    for step in all {
                        found.extend(self.step(step, &[*value])?);
                    }
                }
                Step::Filter { left, operator, right } => {
                    let Value::Array(all) = value else {
                        return Err(format!(
                            "{} is not array or slice and cannot be filtered",
                            show::text(value)
                        ));
                    };
                    for element in all {
                        if self.holds(left, *operator, right, element)? {
                            found.push(element);
                        }
                    }
                }
            }
            self.count(found.len())?;
        }
        Ok(found)
    }

    /// Collects the value and all values in it.
    fn descend<'v>(&mut self, value: &'v Value, found: &mut Vec<&'v Value>) -> Result<(), String> {
        self.count(1)?;
        found.push(value);
        match value {
            Value::Array(all) => all.iter().try_for_each(|inner| self.descend(inner, found)),
            Value::Object(all) => all.values().try_for_each(|inner| self.descend(inner, found)),
            _ => Ok(()),
        }
    }

    fn holds(
        &mut self,
        left: &Operand,
        operator: Operator,
        right: &Operand,
        element: &Value,
    ) -> Result<bool, String> {
        let left = self.side(left, element)?;
        if operator == Operator::Exists {
            return Ok(left.is_some());
        }
        let (Some(left), Some(right)) = (left, self.side(right, element)?) else { return Ok(false) };
        let order = match (&left, &right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64().zip(right.as_f64()).and_then(|(left, right)| left.partial_cmp(&right))
            }
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            _ => None,
        };
        let Some(order) = order else {
            return Err("incompatible types for comparison".to_owned());
        };
        Ok(match operator {
            Operator::Equal | Operator::Exists => order == Ordering::Equal,
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => order != Ordering::Greater,
            Operator::Greater => order == Ordering::Greater,
            Operator::GreaterOrEqual => order != Ordering::Less,
        })
    }

    fn side(&mut self, side: &Operand, element: &Value) -> Result<Option<Value>, String> {
        let path = match side {
            Operand::Value(value) => return Ok(Some(value.clone())),
            Operand::Path(path) => path,
        };
        match self.find(path, element)?.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(Value::clone(only))),
            _ => Err("can only compare one element at a time".to_owned()),
        }
    }
}

fn list(value: &Value) -> Result<Option<&Vec<Value>>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Array(all) => Ok(Some(all)),
        other => Err(format!("{} is not array or slice", show::text(other))),
    }
}

/// The position of an index in a list; negative indexes count from the end.
fn place(index: i64, length: usize) -> Result<usize, String> {
    let length_signed = i64::try_from(length).unwrap_or(i64::MAX);
    let at = if index < 0 { index.saturating_add(length_signed) } else { index };
    let found = usize::try_from(at).ok().filter(|at| *at < length);
    found.ok_or_else(|| format!("array index out of bounds: index {index}, length {length}"))
}

fn one(value: &Value, index: i64) -> Result<Option<&Value>, String> {
    let Some(all) = list(value)? else { return Ok(None) };
    Ok(all.get(place(index, all.len())?))
}

fn slice(
    value: &Value,
    from: Option<i64>,
    to: Option<i64>,
    step: Option<i64>,
) -> Result<impl Iterator<Item = &Value>, String> {
    let all = list(value)?.map(Vec::as_slice).unwrap_or_default();
    let (from, length) = (from.unwrap_or(0), i64::try_from(all.len()).unwrap_or(i64::MAX));
    let to = to.map_or(length, |to| if to < 0 { to.saturating_add(length) } else { to });
    let start = if from < 0 { from.saturating_add(length) } else { from };
    let step = match step.unwrap_or(1) {
        step if step <= 0 => return Err("step must be > 0".to_owned()),
        step => usize::try_from(step).unwrap_or(usize::MAX),
    };
    // An empty slice may be anywhere.
    let taken: &[Value] = if start == to {
        &[]
    } else {
        let start = place(start, all.len())?;
        let end = usize::try_from(to).ok().filter(|end| *end <= all.len());
        let why =
            || format!("array index out of bounds: index {}, length {}", to.saturating_sub(1), all.len());
        let end = end.ok_or_else(why)?;
        all.get(start..end)
            .ok_or_else(|| format!("starting index {start} is greater than ending index {end}"))?
    };
    Ok(taken.iter().step_by(step))
}
