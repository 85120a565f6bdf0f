//! The fields of a protobuf message, as encoded. Pure, and each field is a client's.

use std::cell::Cell;

/// The encoded value of a field.
pub enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Number of fields that may still be read, plus one. A field of two bytes becomes a value of hundreds.
#[derive(Debug)]
pub struct Left(Cell<usize>);

impl Left {
    /// This many fields may be read.
    pub fn new(fields: usize) -> Left {
        Left(Cell::new(fields.saturating_add(1)))
    }

    /// Whether there were more.
    pub fn is_used_up(&self) -> bool {
        self.0.get() == 0
    }

    /// The fields of a message, counted.
    pub fn fields<'a>(&'a self, message: &'a [u8]) -> Fields<'a> {
        Fields { bytes: message, left: self }
    }
}

/// The fields of a message; `None` for invalid bytes or too many fields, which end the iteration.
pub struct Fields<'a> {
    bytes: &'a [u8],
    left: &'a Left,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Wire<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let left = self.left.0.get();
        self.left.0.set(left.saturating_sub(1));
        let field = if left > 1 { self.field() } else { None };
        if field.is_none() {
            self.bytes = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let key = self.number()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.number()?),
            1 => self.take(8).map(|_| Wire::Other)?,
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Other)?,
            _ => return None,
        };
        Some((key >> 3, wire))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }
}
