//! Where spans go: the collector that a setting names.

/// The variable that names the collector.
pub const VARIABLE: &str = "GT_OTEL";
/// The variable of OpenTelemetry's own for it, which holds if [`VARIABLE`] is not set.
pub const STANDARD: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The path of traces on a collector.
const PATH: &str = "/v1/traces";

/// The address to which spans go, from the environment or the user's file. None if no setting names
/// one.
///
/// # Errors
/// It is no address of a collector. The text names the setting and the cure.
pub fn endpoint() -> Result<Option<String>, String> {
    let named = |name| gt_settings::var(name).map(|text| (name, text));
    let Some((name, text)) = named(VARIABLE).or_else(|| named(STANDARD)) else { return Ok(None) };
    parse(&text).map_err(|why| format!("{name}={text}: {why}"))
}

/// `off` and `0` are no collector.
fn parse(text: &str) -> Result<Option<String>, String> {
    let text = text.trim().trim_end_matches('/');
    let Some(rest) = text.strip_prefix("http://") else {
        return match text {
            "" | "0" | "off" => Ok(None),
            _ if text.starts_with("https://") => {
                Err("spans travel over http only; let a collector on this machine pass them on"
                    .into())
            }
            _ => Err("this is no address of a collector, as http://localhost:4318 is".into()),
        };
    };
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("this is no address of a collector, as http://localhost:4318 is".into());
    }
    let path = if rest.ends_with(PATH) { "" } else { PATH };
    Ok(Some(format!("{text}{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_path_of_traces() {
        let there = Ok(Some("http://pi:4318/v1/traces".to_owned()));
        assert_eq!(parse(" http://pi:4318 "), there);
        assert_eq!(parse("http://pi:4318/"), there);
        assert_eq!(parse("http://pi:4318/v1/traces"), there);
        assert_eq!(parse("off"), Ok(None));
        let wrong = |text: &str| parse(text).unwrap_err();
        assert!(wrong("https://pi").contains("over http only"));
        for text in ["pi:4318", "http://", "http:///x", "http://a b", "grpc://pi"] {
            assert!(wrong(text).contains("http://localhost:4318"), "{text}");
        }
    }
}
