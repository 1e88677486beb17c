//! A place in a list, and the cursor that names it to whoever goes on from there.
//!
//! A page goes on after a place in its order, not after a number of rows: what is added meanwhile moves nothing
//! (<https://use-the-index-luke.com/no-offset>).

use crate::{ListOrder, ListQuery, ReadError};

/// A place in a list: the last row that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the order of ids.
    Id(String),
    /// In the order of creation.
    Record(i64),
}

impl Place {
    /// Where the query goes on.
    pub(crate) fn after(query: &ListQuery) -> Result<Self, ReadError> {
        let Some(cursor) = &query.cursor else {
            return Ok(match query.order {
                // No id is empty.
                ListOrder::Id => Self::Id(String::new()),
                ListOrder::Newest => Self::Record(i64::MAX),
            });
        };
        Self::parse(query.order, cursor).ok_or_else(|| ReadError::BadCursor(cursor.clone()))
    }

    /// Letters and digits only, so that it passes through any address or shell.
    pub(crate) fn cursor(&self) -> String {
        match self {
            Self::Id(id) => {
                let mut cursor = String::with_capacity(1 + id.len() * 2);
                cursor.push('i');
                cursor.extend(id.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)]));
                cursor
            }
            Self::Record(record) => format!("n{record}"),
        }
    }

    fn parse(order: ListOrder, cursor: &str) -> Option<Self> {
        match order {
            ListOrder::Id => Some(Self::Id(from_hex(cursor.strip_prefix('i')?)?)),
            ListOrder::Newest => {
                let record: i64 = cursor.strip_prefix('n')?.parse().ok()?;
                (record > 0).then_some(Self::Record(record))
            }
        }
    }
}

fn digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

fn from_hex(text: &str) -> Option<String> {
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |byte: u8| char::from(byte).to_digit(16);
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::try_from(nibble(pair[0])? << 4 | nibble(pair[1])?).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        for id in ["a", "ü/%2F 😀 ", "0"] {
            let place = Place::Id(id.to_owned());
            assert_eq!(Place::parse(ListOrder::Id, &place.cursor()), Some(place));
        }
        let place = Place::Record(7);
        assert_eq!(Place::parse(ListOrder::Newest, &place.cursor()), Some(place));
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for cursor in ["", "i", "i6", "ixx", "iff", "n1", "n7", "ié"] {
            assert_eq!(Place::parse(ListOrder::Id, cursor), None, "{cursor:?}");
        }
        for cursor in ["", "n", "n-1", "n0", "i61", "n9223372036854775808"] {
            assert_eq!(Place::parse(ListOrder::Newest, cursor), None, "{cursor:?}");
        }
    }
}
