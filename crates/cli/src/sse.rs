//! Server-sent events, as they arrive (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

/// The longest event that is read, in bytes: one with the largest data fits.
const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// One event, or a mere move of the id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The last id that was told with it, or before it.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// Its data; empty: only the id has moved.
    pub data: String,
}

/// Reads events out of pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    rest: Vec<u8>,
    event: Event,
}

impl Reader {
    /// The events that a further piece completes.
    ///
    /// # Errors
    /// It is no stream of events.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.rest.push(*byte);
                if self.rest.len() + self.event.data.len() > EVENT_BYTES_MAX {
                    return Err(format!("an event is larger than {EVENT_BYTES_MAX} bytes"));
                }
                continue;
            }
            let line = String::from_utf8(std::mem::take(&mut self.rest)).map_err(|_| "an event is not UTF-8")?;
            let line = line.strip_suffix('\r').unwrap_or(&line);
            if line.is_empty() {
                events.extend(self.end());
            } else {
                self.field(line);
            }
        }
        Ok(events)
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // A comment, or what a newer server says.
            _ => {}
        }
    }

    /// A blank line: nothing, if nothing was said since the last one.
    fn end(&mut self) -> Option<Event> {
        let event = std::mem::take(&mut self.event);
        (event != Event::default()).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_give_the_same_events() {
        let text =
            ": keep-alive\n\nid: 1\nevent: move\ndata: {\"a\":\ndata: 1}\n\nretry: 1000\nid:2\r\n\r\nevent: x\nda";
        let event =
            |id: &str, name: &str, data: &str| Event { id: Some(id.into()), name: name.into(), data: data.into() };
        let expected = [event("1", "move", "{\"a\":\n1}"), event("2", "", "")];
        for size in [1, 2, 3, 7, 1000] {
            let mut reader = Reader::default();
            let events: Vec<Event> =
                text.as_bytes().chunks(size).flat_map(|piece| reader.take(piece).unwrap()).collect();
            assert_eq!(events, expected, "pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        assert!(Reader::default().take(b"data: \xff\n").is_err());
        assert!(Reader::default().take(&vec![b'x'; EVENT_BYTES_MAX + 1]).is_err());
    }
}
