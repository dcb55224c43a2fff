//! Names in kebab case.

/// Turns `HTTPServerLog` into `http-server-log`. A word ends before a capital after a small letter
/// or a digit, before the last of several capitals if a small letter follows, and at underscores.
pub(crate) fn kebab_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut kebab = String::new();
    for (at, char) in chars.iter().enumerate() {
        if *char == '_' {
            kebab.push('-');
            continue;
        }
        let before = at.checked_sub(1).map(|before| chars[before]);
        let after_small = before.is_some_and(|before| before.is_lowercase() || before.is_numeric());
        let last_capital =
            before.is_some_and(char::is_uppercase) && chars.get(at + 1).is_some_and(|after| after.is_lowercase());
        if char.is_uppercase() && (after_small || last_capital) {
            kebab.push('-');
        }
        kebab.extend(char.to_lowercase());
    }
    let words: Vec<&str> = kebab.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::kebab_case;

    #[test]
    fn words_are_told_apart() {
        for (name, kebab) in [
            ("OrderTotals", "order-totals"),
            ("Totals", "totals"),
            ("A", "a"),
            ("HTTPServerLog", "http-server-log"),
            ("OrderHTTP", "order-http"),
            ("HTTP", "http"),
            ("ASale", "a-sale"),
            ("OrderTotalsV2", "order-totals-v2"),
            ("Http2Server", "http2-server"),
            ("HTTP2Server", "http2-server"),
            ("S3Upload", "s3-upload"),
            ("snake_case", "snake-case"),
            ("_Order__Totals_", "order-totals"),
            ("SCREAMING_CASE", "screaming-case"),
            ("GrößenÄnderung", "größen-änderung"),
            ("__", ""),
        ] {
            assert_eq!(kebab_case(name), kebab, "{name}");
        }
    }
}
