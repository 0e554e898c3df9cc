//! Reads octets one after another.

/// The octets that are not read yet.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next `count` octets; `None` if there are fewer, which stay unread.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The number in the next `count` octets, at most 8, in network order.
    pub fn number(&mut self, count: usize) -> Option<u64> {
        Some(self.take(count)?.iter().fold(0, |number, &octet| number << 8 | u64::from(octet)))
    }

    /// The octets after their length, which has `count` octets.
    pub fn block(&mut self, count: usize) -> Option<&'a [u8]> {
        let length = self.number(count)?;
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn reads_to_the_end_and_not_beyond() {
        let mut octets = Cursor(&[1, 2, 3, 0, 1, 9, 5, 8]);
        assert_eq!((octets.take(1), octets.number(2), octets.block(2)), (Some(&[1][..]), Some(0x0203), Some(&[9][..])));
        assert_eq!((octets.take(3), octets.number(3), octets.0), (None, None, &[5, 8][..]));
        assert_eq!(octets.block(1), None, "only one of five octets is there");
    }
}
