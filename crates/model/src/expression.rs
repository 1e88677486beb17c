//! Guards and assigns: CEL with a bounded cost.
