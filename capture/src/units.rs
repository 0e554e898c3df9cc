//! Values of the configuration that are written as text: sizes, times, names.

use serde::{Deserialize, Deserializer};
use std::str::FromStr;
use std::time::Duration;

/// A value with a written form of its own.
pub fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Several such values.
pub fn parsed_list<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Vec::<String>::deserialize(deserializer)?
        .iter()
        .map(|text| text.parse().map_err(serde::de::Error::custom))
        .collect()
}

/// Octets as `"512MiB"`, `"2GB"` or a number.
pub fn octets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Size {
        Number(u64),
        Text(String),
    }
    match Size::deserialize(deserializer)? {
        Size::Number(number) => Ok(number),
        Size::Text(text) => text
            .parse::<bytesize::ByteSize>()
            .map(|size| size.as_u64())
            .map_err(|_| serde::de::Error::custom(format!("{text:?} is not a size such as \"512MiB\""))),
    }
}

/// A time as `"60s"` or `"2m"`.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|_| serde::de::Error::custom(format!("{text:?} is not a time such as \"60s\"")))
}
