//! The fields of a message of protobuf, as they stand on the wire. Pure, and each field is a client's.

/// What a field holds on the wire.
pub enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message; `None` for bytes that are none, after which nothing comes.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Wire<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
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
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}
