//! What is known of values: the kinds that they may be of, and what is inside of lists and maps.

use std::collections::BTreeMap;
use std::ops::{BitAnd, BitOr};
use std::sync::Arc;

/// Kinds that a value may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u16);

impl Kinds {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOL: Self = Self(1 << 1);
    /// Whole or not: CEL compares both, and JSON Schema's `integer` takes `1.0`.
    pub(crate) const NUMBER: Self = Self(1 << 2);
    pub(crate) const TEXT: Self = Self(1 << 3);
    pub(crate) const LIST: Self = Self(1 << 4);
    pub(crate) const MAP: Self = Self(1 << 5);
    pub(super) const BYTES: Self = Self(1 << 6);
    pub(super) const TIME: Self = Self(1 << 7);
    pub(super) const DURATION: Self = Self(1 << 8);
    pub(super) const TYPE: Self = Self(1 << 9);
    pub(crate) const JSON: Self = Self(0b11_1111);
    pub(super) const ANY: Self = Self(0b11_1111_1111);

    pub(super) const NAMES: [(Self, &'static str); 10] = [
        (Self::NULL, "null"),
        (Self::BOOL, "true or false"),
        (Self::NUMBER, "a number"),
        (Self::TEXT, "a text"),
        (Self::LIST, "a list"),
        (Self::MAP, "a map"),
        (Self::BYTES, "bytes"),
        (Self::TIME, "a time"),
        (Self::DURATION, "a duration"),
        (Self::TYPE, "a type"),
    ];

    /// Whether a value may be of both.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// What it is, for messages.
    pub(crate) fn name(self) -> String {
        let names: Vec<_> = Self::NAMES.iter().filter(|(kind, _)| self.meets(*kind)).map(|(_, name)| *name).collect();
        names.join(" or ")
    }

    /// As what it is kept: times and the like become texts or numbers.
    pub(super) fn kept(self) -> Self {
        if self.meets(Self::BYTES | Self::TIME | Self::DURATION | Self::TYPE) { Self::JSON } else { self }
    }
}

impl BitOr for Kinds {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Kinds {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// What a value may be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Type {
    pub(crate) kinds: Kinds,
    /// Of a list's members; none: nothing is known.
    pub(crate) item: Option<Arc<Type>>,
    /// Of a map; none: nothing is known.
    pub(crate) fields: Option<Arc<Fields>>,
}

/// The fields of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fields {
    pub(crate) known: BTreeMap<String, Type>,
    pub(crate) others: Others,
}

/// Whether a map has fields that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Never.
    None,
    /// It may, but whoever lists fields means to list them all.
    Unlisted,
    /// It may.
    Any,
}

impl Type {
    pub(crate) const ANY: Self = Self::of(Kinds::ANY);

    pub(crate) const fn of(kinds: Kinds) -> Self {
        Self { kinds, item: None, fields: None }
    }

    /// Either of both.
    pub(crate) fn or(self, other: Self) -> Self {
        let (list, map) = (Kinds::LIST, Kinds::MAP);
        // What is known of one's members holds if the other has none.
        let item = match (self.kinds.meets(list), other.kinds.meets(list)) {
            (true, false) => self.item,
            (false, true) => other.item,
            _ => None,
        };
        let fields = match (self.kinds.meets(map), other.kinds.meets(map)) {
            (true, false) => self.fields,
            (false, true) => other.fields,
            _ => None,
        };
        Self { kinds: self.kinds | other.kinds, item, fields }
    }

    /// A map that has fields of these kinds.
    pub(super) fn map_of(fields: &[(&str, Kinds)]) -> Self {
        let known = fields.iter().map(|(name, kinds)| ((*name).to_owned(), Type::of(*kinds))).collect();
        // Names that are not known are refused already.
        Self { fields: Some(Arc::new(Fields { known, others: Others::Any })), ..Type::of(Kinds::MAP) }
    }

    pub(super) fn is_any(&self) -> bool {
        self.kinds == Kinds::ANY
    }
}
