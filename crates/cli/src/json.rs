//! Lays out JSON text without reading it into values: the order of fields and every digit stay as they came.

/// `text`, which must be valid JSON, with a line for each member and two spaces a level.
pub(crate) fn pretty(text: &str) -> String {
    let mut layout = Layout::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if layout.in_text => layout.within_text(c),
            '{' | '[' => {
                while chars.peek().is_some_and(|next| next.is_ascii_whitespace()) {
                    chars.next();
                }
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => layout.shown.extend([c, end]),
                    None => layout.open(c),
                }
            }
            '}' | ']' => layout.close(c),
            ',' => layout.next_line(Some(c)),
            ':' => layout.shown.push_str(": "),
            _ if c.is_ascii_whitespace() => {}
            _ => layout.outside_text(c),
        }
    }
    layout.shown
}

#[derive(Default)]
struct Layout {
    shown: String,
    level: usize,
    in_text: bool,
    escaped: bool,
}

impl Layout {
    fn within_text(&mut self, c: char) {
        self.shown.push(c);
        self.in_text = self.escaped || c != '"';
        self.escaped = !self.escaped && c == '\\';
    }

    fn outside_text(&mut self, c: char) {
        self.in_text = c == '"';
        self.shown.push(c);
    }

    fn open(&mut self, c: char) {
        self.level += 1;
        self.next_line(Some(c));
    }

    fn close(&mut self, c: char) {
        self.level = self.level.saturating_sub(1);
        self.next_line(None);
        self.shown.push(c);
    }

    fn next_line(&mut self, last: Option<char>) {
        self.shown.extend(last);
        self.shown.push('\n');
        self.shown.extend(std::iter::repeat_n("  ", self.level));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_digits_and_texts_are_kept() {
        let text = r#"{"b":9007199254740993,"a":[ ],"c":{"x":"{,:\"\\"},"d":[1,2.50]}"#;
        let shown = "{\n  \"b\": 9007199254740993,\n  \"a\": [],\n  \"c\": {\n    \"x\": \"{,:\\\"\\\\\"\n  },\n  \
                     \"d\": [\n    1,\n    2.50\n  ]\n}";
        assert_eq!(pretty(text), shown);
        assert_eq!(pretty(&pretty(text)), shown);
    }

    #[test]
    fn plain_values_stay_as_they_are() {
        for text in ["null", "\"a b\"", "{}", "[]", "-1.5e3"] {
            assert_eq!(pretty(text), text);
        }
    }
}
