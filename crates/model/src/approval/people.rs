//! People by their ids: who is named, and how many of the places that ask for them they can fill at all.

use serde_json::Value;

use super::matching::{Places, filled};
use crate::definition::approval::{People, Who};
use crate::expression::{Expression, Scope};
use crate::limits::QUORUM_MAX;
use crate::names::check_name;
use crate::{Actor, Refusal};

/// So many of these, sorted and without repetition.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'p> {
    pub(crate) quorum: usize,
    pub(crate) people: &'p [String],
}

/// How many of the places the people who are named can fill at most, if all of them agree: each fills one.
pub(crate) fn most_filled(asked: &[Asked<'_>]) -> usize {
    let mut everybody: Vec<&String> = asked.iter().flat_map(|asked| asked.people).collect();
    everybody.sort_unstable();
    everybody.dedup();
    let places = asked.iter().map(|asked| Places {
        quorum: asked.quorum,
        fits: everybody.iter().map(|person| asked.people.binary_search(person).is_ok()).collect(),
    });
    filled(&places.collect::<Vec<_>>(), everybody.len()).iter().sum()
}

/// Whether `actor` is one of `who`.
pub(crate) fn is_one_of(actor: &Actor, who: &Who, scope: &Scope<'_>) -> Result<bool, Refusal> {
    Ok(actor.has_any(&who.roles) && is_among(&actor.id, who, scope)?)
}

/// Whether `id` is among those whom `who` names, if it names any.
pub(crate) fn is_among(id: &str, who: &Who, scope: &Scope<'_>) -> Result<bool, Refusal> {
    match &who.of {
        None => Ok(true),
        Some(people) => Ok(told(people, scope)?.iter().any(|person| person == id)),
    }
}

/// The people, sorted and without repetition.
///
/// # Errors
/// `guard_error`: they cannot be told.
pub(crate) fn told(people: &People, scope: &Scope<'_>) -> Result<Vec<String>, Refusal> {
    match people {
        People::Named(people) => Ok(people.clone()),
        People::Computed(expression) => {
            let fail = |detail: String| Refusal::GuardError { expression: expression.text().to_owned(), detail };
            expression.evaluate(scope).and_then(ids).map_err(fail)
        }
    }
}

/// The people that an expression names that looks at nothing, or why nobody can be; none: it depends on what it sees.
pub(crate) fn constant(expression: &Expression) -> Option<Result<Vec<String>, String>> {
    Some(expression.constant_value()?.and_then(ids))
}

/// The ids in what an expression yields.
fn ids(value: Value) -> Result<Vec<String>, String> {
    let Value::Array(items) = value else { return Err("a list of people is needed".to_owned()) };
    if items.len() > QUORUM_MAX {
        return Err(format!("{} people; at most {QUORUM_MAX} may be named", items.len()));
    }
    let mut people = Vec::with_capacity(items.len());
    for item in items {
        let Value::String(name) = item else { return Err("people are texts: their ids".to_owned()) };
        check_name("actor id", &name).map_err(|error| error.to_string())?;
        people.push(name);
    }
    people.sort_unstable();
    people.dedup();
    Ok(people)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_fills_one_place() {
        let (ann, both) = (vec!["ann".to_owned()], vec!["ann".to_owned(), "bob".to_owned()]);
        let asked = |quorum, people| Asked { quorum, people };
        for (asked, most) in [
            (&[][..], 0),
            (&[asked(1, &both[..])][..], 1),
            (&[asked(3, &both[..])][..], 2),
            (&[asked(1, &both[..]), asked(1, &ann[..])][..], 2),
            (&[asked(1, &ann[..]), asked(1, &ann[..])][..], 1),
            (&[asked(2, &both[..]), asked(1, &ann[..])][..], 2),
        ] {
            assert_eq!(most_filled(asked), most);
        }
    }
}
