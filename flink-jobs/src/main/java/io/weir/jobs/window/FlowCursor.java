package io.weir.jobs.window;

import io.weir.jobs.message.Direction;
import io.weir.jobs.message.Enrichment;

/**
 * Gives access to one flow of a window at a time, by field name: iterates over the entries of a
 * {@link FlowTable} without creating an object for each. An <em>end</em> of a flow is its source
 * ({@code true}) or its destination ({@code false}); octets are those of layer 3.
 */
public final class FlowCursor {
  private static final long LOW = 0xffffffffL;

  private long[] cells;
  private int at;
  private int end;
  private int bucket;
  private boolean national;

  /** A cursor over rows of a digest, see {@link #place}. */
  public static FlowCursor of(long[] data) {
    return new FlowCursor(data);
  }

  /** A cursor over entries without a declared scope. */
  FlowCursor(long[] cells) {
    this(cells, cells.length / FlowTable.STRIDE, -1, false);
  }

  /** A cursor over the first {@code size} entries, in a bucket. */
  FlowCursor(long[] cells, int size, int bucket, boolean national) {
    this.bucket = bucket;
    this.national = national;
    over(cells, size);
  }

  /** Restarts before the first of other entries. */
  FlowCursor over(long[] others, int size) {
    cells = others;
    at = -FlowTable.STRIDE;
    end = size * FlowTable.STRIDE;
    return this;
  }

  /** Advances to the next flow; false if there is none. */
  public boolean next() {
    at += FlowTable.STRIDE;
    return at < end;
  }

  /** Goes to the flow with this number. */
  public FlowCursor seek(int flow) {
    at = flow * FlowTable.STRIDE;
    return this;
  }

  /**
   * Points at the flow whose key and octets begin at an offset in a digest; its other values are
   * unavailable.
   */
  public FlowCursor place(int place) {
    at = place;
    return this;
  }

  /** Number of the flow. */
  public int number() {
    return at / FlowTable.STRIDE;
  }

  // ---- who ----

  /** High 64 bits of an end's address. */
  public long high(boolean source) {
    return cells[at + (source ? FlowTable.SRC : FlowTable.DST)];
  }

  /** Low 64 bits of an end's address. */
  public long low(boolean source) {
    return cells[at + (source ? FlowTable.SRC : FlowTable.DST) + 1];
  }

  /** An end's address in the form that tables use. */
  public byte[] address(boolean source) {
    return Cells.address(cells, at + (source ? FlowTable.SRC : FlowTable.DST));
  }

  /** An end's port. */
  public int port(boolean source) {
    long tuple = cells[at + FlowTable.TUPLE];
    return source ? FlowTable.srcPort(tuple) : FlowTable.dstPort(tuple);
  }

  public int protocol() {
    return FlowTable.protocol(cells[at + FlowTable.TUPLE]);
  }

  /** Whether it is an overflow record: many flows, for which only a part of the key is known. */
  public boolean isOverflow() {
    return FlowTable.overflowKey(cells[at + FlowTable.TUPLE]) != 0;
  }

  /** Whether an end's address is known: overflow records name one end, or none. */
  public boolean names(boolean source) {
    int key = overflowKey();
    return key == 0 || key == (source ? FlowTable.SOURCE_AND_PORT : FlowTable.DESTINATION_AND_PORT);
  }

  /** Whether the destination port is known, as in all but overflow records by protocol. */
  public boolean namesPort() {
    return overflowKey() != FlowTable.PROTOCOL;
  }

  /** Whether it sums the replies of flows that were folded together. */
  public boolean isBack() {
    return FlowTable.isBack(cells[at + FlowTable.TUPLE]);
  }

  /**
   * Whether this bucket makes the counts that include each flow once; the flow may also be in the
   * bucket of its other end.
   */
  public boolean isOwned() {
    long tuple = cells[at + FlowTable.TUPLE];
    // Each overflow record is in one bucket only.
    return FlowTable.overflowKey(tuple) == 0
        ? Buckets.owner(cells, at) == bucket
        : (tuple & FlowTable.ELSEWHERE) == 0;
  }

  // ---- how much ----

  public long octetsForward() {
    return cells[at + FlowTable.FWD_OCTETS];
  }

  public long packetsForward() {
    return cells[at + FlowTable.FWD_PACKETS];
  }

  public long octetsReverse() {
    return cells[at + FlowTable.REV_OCTETS];
  }

  public long packetsReverse() {
    return cells[at + FlowTable.REV_PACKETS];
  }

  /** Octets of both directions. */
  public long octets() {
    return cells[at + FlowTable.FWD_OCTETS] + cells[at + FlowTable.REV_OCTETS];
  }

  /** Packets of both directions. */
  public long packets() {
    return cells[at + FlowTable.FWD_PACKETS] + cells[at + FlowTable.REV_PACKETS];
  }

  /** Octets that an end sent; it received the octets that the other end sent. */
  public long octetsSent(boolean source) {
    return cells[at + (source ? FlowTable.FWD_OCTETS : FlowTable.REV_OCTETS)];
  }

  /** Packets that an end sent. */
  public long packetsSent(boolean source) {
    return cells[at + (source ? FlowTable.FWD_PACKETS : FlowTable.REV_PACKETS)];
  }

  /** Whether any packet had one of the counted flags. */
  public boolean hasTcpFlags() {
    return (cells[at + FlowTable.SYN]
            | cells[at + FlowTable.SYNACK]
            | cells[at + FlowTable.FIN]
            | cells[at + FlowTable.RST])
        != 0;
  }

  /** SYNs without ACK that an end sent. */
  public long synSent(boolean source) {
    return half(FlowTable.SYN, source);
  }

  /** SYN-ACKs that an end sent. */
  public long synackSent(boolean source) {
    return half(FlowTable.SYNACK, source);
  }

  /** FINs that an end sent. */
  public long finSent(boolean source) {
    return half(FlowTable.FIN, source);
  }

  /** RSTs that an end sent. */
  public long rstSent(boolean source) {
    return half(FlowTable.RST, source);
  }

  /** Whether there is an ICMP error. */
  public boolean hasIcmpErrors() {
    return cells[at + FlowTable.ICMP_ERRORS] != 0;
  }

  /** ICMP errors that an end sent. */
  public long icmpErrorsSent(boolean source) {
    return half(FlowTable.ICMP_ERRORS, source);
  }

  /** ICMP errors that an end sent and that quote UDP packets. */
  public long icmpErrorsUdpSent(boolean source) {
    return half(FlowTable.ICMP_ERRORS_UDP, source);
  }

  // ---- enrichment and other attributes of the flow ----

  /** Number of an end's autonomous system, 0 unknown. */
  public int system(boolean source) {
    return (int) half(FlowTable.AS, source);
  }

  /** Number of an end's customer, 0 for none. */
  public int customer(boolean source) {
    return (int) half(FlowTable.CUSTOMER, source);
  }

  /** Whether an end belongs to a customer. */
  public boolean hasCustomer() {
    return cells[at + FlowTable.CUSTOMER] != 0;
  }

  /** Country of an end, first letter * 256 + second; 0 unknown. */
  public int country(boolean source) {
    return (int) (cells[at + FlowTable.ATTRIBUTES] >>> (source ? 32 : 16)) & 0xffff;
  }

  /** Number of the application, 0 unknown. */
  public int application() {
    return (int) (cells[at + FlowTable.ATTRIBUTES] >>> 48);
  }

  public boolean isIpv6() {
    return is(FlowTable.IPV6);
  }

  /** Whether no SYN was seen, so that the source need not be the initiator. */
  public boolean isGuess() {
    return is(FlowTable.GUESS);
  }

  /**
   * Whether the service's port is the source's: the initiator is a guess, and this one is wrong.
   */
  public boolean isServiceAtSource() {
    return isGuess() && is(FlowTable.SERVICE_AT_SOURCE);
  }

  /** Whether only probes declared to see one direction saw it. */
  public boolean isOneWay() {
    return is(FlowTable.ONE_WAY);
  }

  /** Whether an end is inside: at the probe's site, or over all probes inside the nation. */
  public boolean isLocal(boolean source) {
    return is(
        national
            ? source ? Enrichment.SRC_NATIONAL : Enrichment.DST_NATIONAL
            : source ? Enrichment.SRC_AT_SITE : Enrichment.DST_AT_SITE);
  }

  /**
   * The direction of its source's packets, seen from the probe's site or, over all, from the
   * nation.
   */
  public Direction direction() {
    int flags = (int) cells[at + FlowTable.ATTRIBUTES];
    return national ? Direction.ofNation(flags) : Direction.ofSite(flags);
  }

  // ---- when ----

  /** When the flow was first seen, ms after the window's start. */
  public long firstSeen() {
    return FlowTable.firstSeen(cells[at + FlowTable.SEEN]);
  }

  /** Records that began the flow. */
  public int began() {
    return FlowTable.began(cells[at + FlowTable.SEEN]);
  }

  /** One packet in this many was sampled, at least 1. */
  int samplingRate() {
    return Math.max(1, FlowTable.samplingRate(cells[at + FlowTable.SEEN]));
  }

  // ---- for this package ----

  int overflowKey() {
    return FlowTable.overflowKey(cells[at + FlowTable.TUPLE]);
  }

  /** Where the entry begins. */
  int place() {
    return at;
  }

  /** Whether an end's address is in a bucket. */
  boolean isIn(int ofBucket, boolean source) {
    int address = at + (source ? FlowTable.SRC : FlowTable.DST);
    return Buckets.of(cells[address], cells[address + 1]) == ofBucket;
  }

  /** Whether one of the flags of {@link FlowTable#ATTRIBUTES} is set. */
  boolean is(int flag) {
    return (cells[at + FlowTable.ATTRIBUTES] & flag) != 0;
  }

  /** Appends key, octets and packets to a row, in the form that {@link #place} reads. */
  public void addTo(Sections sections) {
    sections.add(cells, at, FlowTable.REV_PACKETS + 1);
  }

  private long half(int number, boolean source) {
    return source ? cells[at + number] >>> 32 : cells[at + number] & LOW;
  }
}
