"""Prefixes: the contents of a file, how ids are assigned, and that the generated messages match the schemas."""

from __future__ import annotations

import importlib
import io
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from weir.errors import WeirError
from weir.prefixes import Description, Entry, Numbers, canonical, changes, describe, read_file, write_file

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["alert", "control", "counters", "declarations"])
def test_the_generated_messages_are_those_of_the_schemas(tmp_path: Path, name: str) -> None:
    folder, out = CHECKOUT / "schemas", tmp_path / "set"
    assert protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={out}", f"{name}.proto"]) == 0
    fresh = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]
    for message in [*fresh.message_type, *(part for outer in fresh.message_type for part in outer.nested_type)]:
        for one in message.field:
            one.ClearField("json_name")  # generated code does without
    kept = importlib.import_module(f"weir.messages.{name}_pb2").DESCRIPTOR.serialized_pb
    assert fresh == descriptor_pb2.FileDescriptorProto.FromString(kept), (
        "the schema has changed; generate them again: python -m grpc_tools.protoc -Ischemas "
        f"--python_out=stack/weir/messages --pyi_out=stack/weir/messages {name}.proto"
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("192.0.2.0/24", "192.0.2.0/24"),
        (" 192.0.2.7 ", "192.0.2.7/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8:0::/48", "2001:db8::/48"),
        ("2001:db8::1", "2001:db8::1/128"),
    ],
)
def test_prefixes_are_written_in_one_way(text: str, meant: str) -> None:
    assert canonical(text) == meant


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("192.0.2.1/24", "192.0.2.0/24 would contain it"),
        ("192.0.2.0/33", "is not a prefix"),
        ("example.org/24", "is not a prefix"),
        ("", "is not a prefix"),
        ("::ffff:192.0.2.0/120", "write it as IPv4"),
    ],
)
def test_what_is_no_prefix_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        canonical(text)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "customers.csv"
    path.write_text(
        "\ufeffPrefix,customer,tags,national\n"
        "192.0.2.0/24,Fjord Power,power;critical power,true\n"
        "\n"
        '2001:DB8::/32,"Skog, Sons & Co",,no\n',
        encoding="utf-8",
    )
    assert read_file(path) == {
        "192.0.2.0/24": Description("Fjord Power", "", ("critical", "power"), True),
        "2001:db8::/32": Description("Skog, Sons & Co"),
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", ":1: the first line must name the columns"),
        ("192.0.2.0/24,a,b,,\n", ":1: the first line must name the columns"),
        ("prefix,owner\n", ":1: the first line must name the columns"),
        ("prefix,customer\n192.0.2.0/24,a\n192.0.2.1/24,b\n", r":3: '192.0.2.1/24' has bits set"),
        ("prefix,customer\n192.0.2.0/24,a,c\n", ":2: 3 columns where the first line names 2"),
        ("prefix,national\n192.0.2.0/24,maybe\n", ":2: national must be true or false, not 'maybe'"),
        ("prefix,customer\n10.0.0.0/8,a\n10.0.0.0/8,b\n", ":3: 10.0.0.0/8 was already on line 2"),
        ("prefix\nx\ny\nz\n", r":2: 'x' is not a prefix.* \(and 2 more lines are wrong\)"),
        ("prefix,customer\n10.0.0.0/8," + 201 * "x" + "\n", ":2: the customer .* is longer than 200"),
        ("prefix,site\n10.0.0.0/8,a\x07\n", ":2: the site .* unprintable"),
        ('prefix,site\n10.0.0.0/8,"a\n', ":2: unexpected end of data"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(content)
    with pytest.raises(WeirError, match=says) as raised:
        read_file(path)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.csv"
    path.write_bytes(b"prefix\n\xff\xfe\n")
    with pytest.raises(WeirError, match="is not UTF-8"):
        read_file(path)
    with pytest.raises(WeirError, match="cannot read"):
        read_file(tmp_path / "absent.csv")


def test_only_what_differs_gets_a_new_id() -> None:
    one, two = describe("ann", "oslo", [], True), describe("bob", "oslo", ["x"], False)
    first = changes({}, {"10.0.0.0/8": one, "192.0.2.0/24": two}, [], Numbers())
    assert [(e.id, e.customer_id, e.site_id) for e in first.set.values()] == [(1, 1, 1), (2, 2, 1)]
    again = changes(first.set, {"10.0.0.0/8": one, "192.0.2.0/24": one}, ["172.16.0.0/12"], Numbers())
    assert again.set == {"192.0.2.0/24": Entry(one, 3, 1, 1)}
    assert (again.removed, again.unchanged) == ([], 1)


def test_no_id_is_used_again_after_its_prefix_is_gone() -> None:
    given_out = Numbers(7, {"ann": 3, "bob": 4}, {"oslo": 2})
    said = describe("bob", "bergen", [], False)
    made = changes({}, {"10.0.0.0/8": said, "10.1.0.0/16": describe("eve", "oslo", [], False)}, [], given_out)
    assert [(e.id, e.customer_id, e.site_id) for e in made.set.values()] == [(8, 4, 3), (9, 5, 2)]


def test_what_is_listed_can_be_imported(tmp_path: Path) -> None:
    said = {
        "10.0.0.0/8": describe("Skog, Sons & Co", "", ["b", "a"], True),
        "192.0.2.0/24": describe("", "oslo", [], False),
        "2001:db8::/32": describe('"quoted"', "", [], False),
    }
    entries = changes({}, dict(reversed(said.items())), [], Numbers()).set
    out = io.StringIO()
    write_file(entries, out)
    path = tmp_path / "listed.csv"
    path.write_text(out.getvalue())
    assert list(read_file(path).items()) == list(said.items())
