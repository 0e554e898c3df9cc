//! `weir-probe interfaces`.

use crate::probe;
use serde_json::Value;

#[test]
fn the_loopback_is_listed_with_how_to_capture_on_it() {
    let run = |arguments: &[&str]| {
        let output = probe()
            .arg("interfaces")
            .args(arguments)
            .env("WEIR_PF_RING_LIBRARY", "/no/such/libpfring.so")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let list: Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let lo = list["interfaces"].as_array().unwrap().iter().find(|interface| interface["name"] == "lo").unwrap();
    assert_eq!((&lo["link"], &lo["sources"][0]["interface"]), (&"loopback".into(), &"lo".into()));
    assert!(lo["mtu"].as_u64().unwrap() > 0 && lo["receive_queues"].as_u64().unwrap() > 0, "{lo}");
    assert_eq!(list["pf_ring"]["available"], false);
    assert!(list["pf_ring"]["why_not"].as_str().unwrap().contains("cannot load libpfring"), "{list}");
    assert!(list["capabilities"]["CAP_NET_RAW"].is_boolean());
    let text = run(&[]);
    for needle in ["SOURCE.INTERFACE", "lo (AF_PACKET)", "No PF_RING: cannot load", "CAP_NET_RAW"] {
        assert!(text.contains(needle), "{needle}\n{text}");
    }
}
