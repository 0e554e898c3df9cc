//! Records as nProbe's JSON: one object per record, with both directions, keyed by element numbers or names.

use super::elements::{Element, ElementValue, ExportTemplate, NTOP, View};
use serde::ser::{SerializeMap as _, Serializer as _};

/// Writes records as JSON objects.
pub struct JsonForm {
    template: ExportTemplate,
    /// Keys of the elements, for records of IPv4 and of IPv6.
    keys: [Vec<String>; 2],
}

impl JsonForm {
    /// The form of this template, with names as keys if `labels`; otherwise numbers, `"8"`, or `"35632.118"` for an
    /// element of ntop's.
    pub fn new(template: ExportTemplate, labels: bool) -> JsonForm {
        let key = |element: &&Element| match element.enterprise {
            _ if labels => element.name.to_owned(),
            NTOP => format!("{NTOP}.{}", element.id),
            _ => element.id.to_string(),
        };
        let keys = [&template.v4, &template.v6].map(|elements| elements.iter().map(key).collect());
        JsonForm { template, keys }
    }

    /// Appends a record. Empty names are left out.
    pub fn write(&self, view: &View<'_>, json: &mut Vec<u8>) {
        let keys = &self.keys[usize::from(view.version == 6)];
        let mut serializer = serde_json::Serializer::new(json);
        let written = (|| {
            let mut object = serializer.serialize_map(None)?;
            for (element, key) in self.template.of(view.version).iter().zip(keys) {
                match element.value(view) {
                    ElementValue::Number(number) => object.serialize_entry(key, &number)?,
                    ElementValue::Milliseconds(ms) => object.serialize_entry(key, &ms)?,
                    ElementValue::V4(address) => object.serialize_entry(key, &address)?,
                    ElementValue::V6(address) => object.serialize_entry(key, &address)?,
                    ElementValue::Text("") => {}
                    ElementValue::Text(text) => object.serialize_entry(key, text)?,
                }
            }
            object.end()
        })();
        debug_assert!(written.is_ok(), "memory takes whatever is written");
    }

    /// The template as a message of the topic `template`: each element's name, numbers and length.
    pub fn describe(&self) -> serde_json::Value {
        let mut elements: Vec<&Element> = self.template.v4.clone();
        elements.extend(self.template.v6.iter().filter(|element| !self.template.v4.contains(element)));
        let one = |element: &Element| {
            serde_json::json!({
                "PEN": element.enterprise,
                "field": element.id,
                "len": element.octets(),
                "name": element.name,
                "descr": element.iana,
            })
        };
        elements.into_iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Flow;

    fn json(template: &str, labels: bool, flow: &Flow) -> serde_json::Value {
        let mut text = Vec::new();
        JsonForm::new(ExportTemplate::parse(template, true).unwrap(), labels)
            .write(&View::both(flow, 1_000_000), &mut text);
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn keys_are_numbers_or_names() {
        let flow = Flow {
            fwd_packets: 3,
            fwd_octets: 300,
            rev_packets: 2,
            rev_octets: 2000,
            first_seen_offset_ms: 1500,
            last_seen_offset_ms: 2000,
            tcp_handshake_rtt_us: 25_000,
            application_id: 91,
            server_name: "example.org".to_owned(),
            ..crate::export::elements::https()
        };
        let template = "%IPV4_SRC_ADDR %L4_DST_PORT %IN_PKTS %OUT_BYTES %FIRST_SWITCHED %LAST_SWITCHED %L7_PROTO \
            %SERVER_NW_LATENCY_MS %TLS_SERVER_NAME %DNS_QUERY";
        let numbered = serde_json::json!({
            "8": "192.0.2.1", "11": 443, "2": 3, "23": 2000, "22": 1001, "21": 1003, "35632.118": 91, "35632.124": 12.5,
            "35632.188": "example.org", "24": 2,
        });
        assert_eq!(json(template, false, &flow), numbered);
        let named = json(template, true, &flow);
        assert_eq!((&named["IPV4_SRC_ADDR"], &named["L7_PROTO"]), (&"192.0.2.1".into(), &91.into()));
        assert!(named.get("DNS_QUERY").is_none());
        let six = Flow { ip_version: 6, src_addr: vec![0x20; 16], ..flow };
        assert_eq!(json(template, false, &six)["27"], "2020:2020:2020:2020:2020:2020:2020:2020");
    }
}
