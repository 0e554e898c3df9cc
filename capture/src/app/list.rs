//! `weir-probe applications`: lists the applications by number.

use super::ndpi::Ndpi;
use serde::Serialize;

/// An application that a record may contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Application {
    /// Its number, `application_id` in records.
    pub id: u16,
    /// nDPI's name for it.
    pub name: String,
    /// nDPI's name for its category.
    pub category: String,
    /// nDPI's number of it.
    pub category_id: u16,
}

/// Every application that records may state, by number.
///
/// # Errors
/// If the agent was built without nDPI, or it does not start.
pub fn applications() -> anyhow::Result<Vec<Application>> {
    Ok(Ndpi::new(1)?.protocols())
}

/// The applications as CSV (RFC 4180, but with lines ended as Unix does), with a header.
pub fn csv(applications: &[Application]) -> String {
    let field = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let lines = applications
        .iter()
        .map(|one| format!("{},{},{},{}\n", one.id, field(&one.name), field(&one.category), one.category_id));
    std::iter::once("id,name,category,category_id\n".to_owned()).chain(lines).collect()
}

/// The applications as JSON, one object a line, as ClickHouse's format JSONEachRow reads them.
///
/// # Errors
/// Never, with these values.
pub fn json(applications: &[Application]) -> serde_json::Result<String> {
    applications.iter().map(|application| serde_json::to_string(application).map(|line| line + "\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let one =
            |name: &str| Application { id: 5, name: name.to_owned(), category: "Network".to_owned(), category_id: 14 };
        assert_eq!(csv(&[one("DNS")]), "id,name,category,category_id\n5,DNS,Network,14\n");
        assert_eq!(csv(&[one("a,\"b\"")]), "id,name,category,category_id\n5,\"a,\"\"b\"\"\",Network,14\n");
        assert_eq!(
            json(&[one("a\"")]).unwrap(),
            "{\"id\":5,\"name\":\"a\\\"\",\"category\":\"Network\",\"category_id\":14}\n"
        );
    }

    #[test]
    fn the_list_is_ndpis_or_says_what_to_do() {
        match applications() {
            Ok(list) => {
                assert!(list.len() > 200);
                assert!(list.iter().zip(0..).all(|(one, id)| one.id == id));
                assert!(list.iter().any(|one| (one.id, &one.name[..], &one.category[..]) == (5, "DNS", "Network")));
                // A category has one number.
                let category = |name: &str| {
                    let all = list.iter().filter(|one| one.category == name).map(|one| one.category_id);
                    all.collect::<std::collections::BTreeSet<_>>().len()
                };
                assert_eq!((category("Network"), category("Email")), (1, 1));
            }
            Err(error) => assert!(error.to_string().contains("install libndpi-dev"), "{error}"),
        }
    }
}
