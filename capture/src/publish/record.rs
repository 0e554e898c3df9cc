//! Records as the wire format has them.

use crate::app::NotInspected;
use crate::app::names::Kind;
use crate::meter::overflow::{OverflowKey, OverflowRecord};
use crate::meter::record::Record;
use crate::packet::Address;
use crate::proto::{Flow, NotInspected as Wire, Overflow, QuotedFlow, RecordKind, overflow::Key};

/// Fills a flow record in place, so that its buffers serve again; fields that this agent never sets are left alone.
pub fn fill(flow: &mut Flow, record: &Record, interval_start_ms: u64) {
    let key = &record.key;
    let (src, dst) = (record.initiator.end, 1 - record.initiator.end);
    set_address(&mut flow.src_addr, &key.addresses[usize::from(src)], key.version);
    set_address(&mut flow.dst_addr, &key.addresses[usize::from(dst)], key.version);
    flow.src_port = u32::from(key.source_port(src));
    flow.dst_port = u32::from(key.ports[usize::from(dst)]);
    flow.protocol = u32::from(key.protocol);
    flow.ip_version = u32::from(key.version);
    flow.vlan = u32::from(key.vlan);
    let (fwd, rev) = (record.forward(), record.reverse());
    flow.fwd_packets = u64::from(fwd.packets);
    flow.fwd_octets = u64::from(fwd.octets);
    flow.rev_packets = u64::from(rev.packets);
    flow.rev_octets = u64::from(rev.octets);
    flow.first_seen_offset_ms = record.first_ms - interval_start_ms as i64;
    flow.last_seen_offset_ms = record.last_ms.saturating_sub(record.first_ms).max(0) as u64;
    flow.flow_age_ms = record.first_ms.saturating_sub(record.start_ms).max(0) as u64;
    flow.initiator_guess = record.initiator.guess;
    flow.record_kind = RecordKind::Flow as i32;
    let (fwd, rev) = (&fwd.events, &rev.events);
    flow.fwd_tcp_syn = u64::from(fwd.syn);
    flow.rev_tcp_syn = u64::from(rev.syn);
    flow.fwd_tcp_synack = u64::from(fwd.synack);
    flow.rev_tcp_synack = u64::from(rev.synack);
    flow.fwd_tcp_fin = u64::from(fwd.fin);
    flow.rev_tcp_fin = u64::from(rev.fin);
    flow.fwd_tcp_rst = u64::from(fwd.rst);
    flow.rev_tcp_rst = u64::from(rev.rst);
    flow.fwd_tcp_retransmissions = u64::from(fwd.retransmissions);
    flow.rev_tcp_retransmissions = u64::from(rev.retransmissions);
    flow.fwd_tcp_out_of_order = u64::from(fwd.out_of_order);
    flow.rev_tcp_out_of_order = u64::from(rev.out_of_order);
    flow.tcp_handshake_rtt_us = record.handshake_rtt_us;
    flow.fwd_icmp_errors = u64::from(fwd.icmp_errors);
    flow.rev_icmp_errors = u64::from(rev.icmp_errors);
    flow.icmp_quoted_flow = record.quoted.map(|quoted| {
        let octets = |address: Address| (if quoted.version == 4 { &address[12..] } else { &address[..] }).to_vec();
        QuotedFlow {
            src_addr: octets(quoted.src),
            dst_addr: octets(quoted.dst),
            src_port: u32::from(quoted.src_port),
            dst_port: u32::from(quoted.dst_port),
            protocol: u32::from(quoted.protocol),
        }
    });
    flow.application_id = u32::from(record.application_id);
    flow.application_not_inspected = record.not_inspected.map_or(0, |cause| {
        (match cause {
            NotInspected::Overload => Wire::Overload,
            NotInspected::PoolFull => Wire::PoolFull,
            NotInspected::Displaced => Wire::Displaced,
        }) as i32
    });
    flow.server_name.clear();
    flow.dns_query.clear();
    if let Some(name) = &record.name {
        let field = if name.kind() == Kind::Server { &mut flow.server_name } else { &mut flow.dns_query };
        field.push_str(name.as_str());
    }
    flow.overflow = None;
}

/// An overflow record.
pub fn overflow(record: &OverflowRecord, interval_start_ms: u64) -> Flow {
    let mut flow = Flow {
        fwd_packets: record.volume.packets,
        fwd_octets: record.volume.octets,
        fwd_tcp_syn: record.syn,
        first_seen_offset_ms: record.first_ms - interval_start_ms as i64,
        last_seen_offset_ms: record.last_ms.saturating_sub(record.first_ms).max(0) as u64,
        initiator_guess: true,
        record_kind: RecordKind::Overflow as i32,
        ..Flow::default()
    };
    let (kind, key, inbound) = match record.key {
        OverflowKey::Source(src, kind, port) => {
            set_address(&mut flow.src_addr, &src, kind.version);
            flow.dst_port = u32::from(port);
            (kind, Key::SourceAndPort, false)
        }
        OverflowKey::Destination(dst, kind, port) => {
            set_address(&mut flow.dst_addr, &dst, kind.version);
            flow.dst_port = u32::from(port);
            (kind, Key::DestinationAndPort, false)
        }
        OverflowKey::Direction(kind, inbound) => (kind, Key::ProtocolAndDirection, inbound),
    };
    flow.protocol = u32::from(kind.protocol);
    flow.ip_version = u32::from(kind.version);
    let distinct_sketch = record.distinct.registers().to_vec();
    flow.overflow = Some(Overflow { key: key as i32, distinct_sketch, inbound });
    flow
}

fn set_address(to: &mut Vec<u8>, address: &Address, version: u8) {
    to.clear();
    to.extend_from_slice(if version == 4 { &address[12..] } else { address });
}
