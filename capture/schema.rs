//! Part of the build script: generates the function that writes a record as a line of JSON, from the options of
//! `schemas/columns.proto`. A field's key is its `json_name`; the option `line` says when to write it.

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor, Value,
};
use std::fmt::Write as _;

/// Numbers of the enum `Line`.
const ALWAYS: i32 = 1;
const NEVER: i32 = 2;
const FLAT: i32 = 3;

/// Rust's source of `fn state(flow: &proto::Flow, otherwise, put)`.
pub fn lines(pool: &DescriptorPool) -> String {
    let of = Options {
        line: pool.get_extension_by_name("weir.v1.line").expect("columns.proto declares it"),
        column: pool.get_extension_by_name("weir.v1.column").expect("columns.proto declares it"),
    };
    let flow = pool.get_message_by_name("weir.v1.Flow").expect("flow.proto declares it");
    let mut text = String::from(
        "fn state(flow: &proto::Flow, otherwise: impl Fn(&str, &mut Map<String, Value>), line: &mut Map<String, Value>) {\n",
    );
    of.fields(&mut text, &flow, "flow");
    text + "}\n"
}

struct Options {
    line: ExtensionDescriptor,
    column: ExtensionDescriptor,
}

impl Options {
    /// Writes every field of `message`, whose value is the expression `value`.
    fn fields(&self, text: &mut String, message: &MessageDescriptor, value: &str) {
        // In the order of the file, which is also the order of a JSON line.
        for declared in &message.descriptor_proto().field {
            let field = message.get_field_by_name(declared.name()).expect("it is declared");
            self.field(text, &field, value);
        }
    }

    fn field(&self, text: &mut String, field: &FieldDescriptor, value: &str) {
        let name = field.name();
        let key = if field.json_name().contains('_') { field.json_name() } else { name };
        let when = match field.options().get_extension(&self.line).as_ref() {
            Value::EnumNumber(number) => *number,
            _ => 0,
        };
        let value = format!("{value}.{name}");
        let (present, stated) = match field.kind() {
            _ if when == NEVER => {
                let _ = writeln!(text, "otherwise({name:?}, line);");
                return;
            }
            Kind::Message(inner) => {
                let _ = writeln!(text, "if let Some(inner) = &{value} {{");
                if when == FLAT {
                    self.fields(text, &inner, "inner");
                } else {
                    text.push_str("let within = {\nlet line = &mut Map::new();\n");
                    self.fields(text, &inner, "inner");
                    let _ = writeln!(
                        text,
                        "std::mem::take(line)\n}};\nline.insert({key:?}.into(), Value::Object(within));"
                    );
                }
                text.push_str("}\n");
                return;
            }
            Kind::Enum(kind) => {
                // Its values are named after it: RECORD_KIND_FLOW of RecordKind is `flow`.
                let prefix = kind.name().chars().fold(String::new(), |mut prefix, letter| {
                    if letter.is_uppercase() && !prefix.is_empty() {
                        prefix.push('_');
                    }
                    prefix.push(letter.to_ascii_uppercase());
                    prefix
                });
                (format!("{value} != 0"), format!("word({value}().as_str_name(), \"{prefix}_\")"))
            }
            Kind::Bytes if self.is_address(field) => (format!("!{value}.is_empty()"), format!("text(&{value})")),
            Kind::Bytes => (format!("!{value}.is_empty()"), format!("hexadecimal(&{value})")),
            Kind::String => (format!("!{value}.is_empty()"), format!("&{value}")),
            Kind::Bool => (value.clone(), value.clone()),
            _ => (format!("{value} != 0"), value.clone()),
        };
        let insert = format!("line.insert({key:?}.into(), json!({stated}));");
        let _ = if when == ALWAYS { writeln!(text, "{insert}") } else { writeln!(text, "if {present} {{ {insert} }}") };
    }

    fn is_address(&self, field: &FieldDescriptor) -> bool {
        let options: DynamicMessage = field.options();
        let column = options.get_extension(&self.column);
        column
            .as_message()
            .is_some_and(|column| column.get_field_by_name("type").is_some_and(|kind| kind.as_str() == Some("IPv6")))
    }
}
