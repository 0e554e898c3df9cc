package io.weir.jobs.ledger;

import io.weir.proto.CauseVolume;
import io.weir.proto.Conservation;
import io.weir.proto.DropCount;
import io.weir.proto.Volume;
import java.util.Map;
import java.util.TreeMap;

/** The terms of the conservation law, with addition and subtraction. Packets, or layer-3 octets. */
final class Sums {
  long onInterface;
  long capturedPackets;
  long capturedOctets;
  long inRing;
  long carriedInPackets;
  long carriedInOctets;
  long carriedOutPackets;
  long carriedOutOctets;
  long flowPackets;
  long flowOctets;
  long overflowPackets;
  long overflowOctets;
  long late;
  final Map<String, Long> dropped = new TreeMap<>();
  final Map<String, Long> notMeteredPackets = new TreeMap<>();
  final Map<String, Long> notMeteredOctets = new TreeMap<>();

  /** Whether all terms of a message are 0. */
  static boolean isEmpty(Conservation c) {
    return (c.getInRingPackets() | c.getLatePackets()) == 0
        && isEmpty(c.getOnInterface())
        && isEmpty(c.getCaptured())
        && isEmpty(c.getCarriedIn())
        && isEmpty(c.getCarriedOut())
        && isEmpty(c.getInFlowRecords())
        && isEmpty(c.getInOverflowRecords())
        && c.getDroppedList().stream().allMatch(drop -> drop.getPackets() == 0)
        && c.getNotMeteredList().stream().allMatch(cause -> isEmpty(cause.getVolume()));
  }

  private static boolean isEmpty(Volume volume) {
    return (volume.getPackets() | volume.getOctets()) == 0;
  }

  /** Adds all terms. */
  void add(Conservation c) {
    addFlowing(c, 1);
    inRing += c.getInRingPackets();
    carriedInPackets += c.getCarriedIn().getPackets();
    carriedInOctets += c.getCarriedIn().getOctets();
    carriedOutPackets += c.getCarriedOut().getPackets();
    carriedOutOctets += c.getCarriedOut().getOctets();
  }

  /**
   * Adds {@code sign} times the terms that grow over an epoch: all except the packets that wait
   * somewhere at the close.
   */
  void addFlowing(Conservation c, int sign) {
    onInterface += sign * c.getOnInterface().getPackets();
    capturedPackets += sign * c.getCaptured().getPackets();
    capturedOctets += sign * c.getCaptured().getOctets();
    flowPackets += sign * c.getInFlowRecords().getPackets();
    flowOctets += sign * c.getInFlowRecords().getOctets();
    overflowPackets += sign * c.getInOverflowRecords().getPackets();
    overflowOctets += sign * c.getInOverflowRecords().getOctets();
    late += sign * c.getLatePackets();
    for (DropCount drop : c.getDroppedList()) {
      dropped.merge(drop.getCause(), sign * drop.getPackets(), Long::sum);
    }
    for (CauseVolume cause : c.getNotMeteredList()) {
      notMeteredPackets.merge(cause.getCause(), sign * cause.getVolume().getPackets(), Long::sum);
      notMeteredOctets.merge(cause.getCause(), sign * cause.getVolume().getOctets(), Long::sum);
    }
  }

  /** Subtracts records received in other intervals from those published. */
  void subtractPublished(long packets, long octets) {
    flowPackets -= packets;
    flowOctets -= octets;
    capturedPackets -= packets;
    capturedOctets -= octets;
    onInterface -= packets;
  }

  /**
   * Raises negative terms to 0: an agent's rounding error must not become a value near 2^64 in a
   * row.
   */
  void clamp() {
    onInterface = Math.max(0, onInterface);
    capturedPackets = Math.max(0, capturedPackets);
    capturedOctets = Math.max(0, capturedOctets);
    flowPackets = Math.max(0, flowPackets);
    flowOctets = Math.max(0, flowOctets);
    overflowPackets = Math.max(0, overflowPackets);
    overflowOctets = Math.max(0, overflowOctets);
    late = Math.max(0, late);
    for (Map<String, Long> map : java.util.List.of(dropped, notMeteredPackets, notMeteredOctets)) {
      map.values().removeIf(value -> value <= 0);
    }
  }

  boolean isZero() {
    return (onInterface | capturedPackets | flowPackets | overflowPackets) == 0;
  }

  /** As a message, for keeping. */
  Conservation toMessage() {
    Conservation.Builder c = Conservation.newBuilder();
    c.getOnInterfaceBuilder().setPackets(onInterface);
    c.getCapturedBuilder().setPackets(capturedPackets).setOctets(capturedOctets);
    c.getInFlowRecordsBuilder().setPackets(flowPackets).setOctets(flowOctets);
    c.getInOverflowRecordsBuilder().setPackets(overflowPackets).setOctets(overflowOctets);
    c.setLatePackets(late);
    dropped.forEach((cause, packets) -> c.addDroppedBuilder().setCause(cause).setPackets(packets));
    notMeteredPackets.forEach(
        (cause, packets) ->
            c.addNotMeteredBuilder()
                .setCause(cause)
                .getVolumeBuilder()
                .setPackets(packets)
                .setOctets(notMeteredOctets.getOrDefault(cause, 0L)));
    return c.build();
  }
}
