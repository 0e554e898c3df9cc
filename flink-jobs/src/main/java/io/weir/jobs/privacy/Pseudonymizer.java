package io.weir.jobs.privacy;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.weir.proto.ExporterName;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.NatEvent;
import io.weir.proto.Pseudonyms;
import io.weir.proto.QuotedFlow;
import io.weir.proto.Routed;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Replaces every address of a batch by its pseudonym, except those that its agent replaced already.
 * Exporters keep their addresses. For one thread.
 */
public final class Pseudonymizer {
  /** Addresses whose pseudonyms are remembered. */
  private static final int REMEMBERED = 1 << 16;

  private final Privacy privacy;
  private final byte[] master;
  private long period;
  private CryptoPan pan;
  private Map<ByteString, ByteString> known;

  /** Reads the master key. */
  public Pseudonymizer(Privacy privacy) throws IOException {
    this.privacy = privacy;
    master = privacy.master();
    begin(0);
  }

  private void begin(long newPeriod) {
    period = newPeriod;
    pan = new CryptoPan(privacy.key(master, newPeriod));
    known =
        new LinkedHashMap<>() {
          private static final long serialVersionUID = 1;

          @Override
          protected boolean removeEldestEntry(Map.Entry<ByteString, ByteString> eldest) {
            return size() > REMEMBERED;
          }
        };
  }

  /** How many records of a batch claim to hold pseudonyms already. */
  public static long claims(FlowMessage message) {
    return message.getBatch().getFlowsList().stream()
        .filter(flow -> flow.getPseudonymsValue() != 0)
        .count();
  }

  /** The message with records that claim nothing of that kind. */
  public static FlowMessage withoutClaims(FlowMessage message) {
    FlowMessage.Builder without = message.toBuilder();
    without.getBatchBuilder().getFlowsBuilderList().forEach(Flow.Builder::clearPseudonyms);
    return without.build();
  }

  /** The message with pseudonyms; closing records stay as they are. */
  public FlowMessage hide(FlowMessage message) {
    if (!message.hasBatch()) {
      return message;
    }
    long now = privacy.period(message.getIntervalStartMs());
    if (now != period) {
      begin(now);
    }
    FlowBatch.Builder batch = message.getBatch().toBuilder();
    for (int i = 0; i < batch.getFlowsCount(); i++) {
      batch.setFlows(i, hide(batch.getFlows(i)));
    }
    for (int i = 0; i < batch.getNatEventsCount(); i++) {
      batch.setNatEvents(i, hide(batch.getNatEvents(i)));
    }
    if (!privacy.names()) {
      for (int i = 0; i < batch.getNamesCount(); i++) {
        ExporterName.Builder name = batch.getNames(i).toBuilder();
        batch.setNames(i, name.clearName().clearDescription());
      }
    }
    return message.toBuilder().setBatch(batch).build();
  }

  private Flow hide(Flow flow) {
    int told = flow.getPseudonymsValue();
    int named =
        (flow.getSrcAddr().isEmpty() ? 0 : Pseudonyms.PSEUDONYMS_SOURCE_VALUE)
            | (flow.getDstAddr().isEmpty() ? 0 : Pseudonyms.PSEUDONYMS_DESTINATION_VALUE);
    int replaced = named & ~told;
    Flow.Builder hidden = flow.toBuilder().setPseudonymsValue(told | replaced);
    if ((replaced & Pseudonyms.PSEUDONYMS_SOURCE_VALUE) != 0) {
      replace(hidden, Flow.SRC_ADDR_FIELD_NUMBER);
    }
    if ((replaced & Pseudonyms.PSEUDONYMS_DESTINATION_VALUE) != 0) {
      replace(hidden, Flow.DST_ADDR_FIELD_NUMBER);
    }
    if (told != Pseudonyms.PSEUDONYMS_BOTH_VALUE && flow.hasIcmpQuotedFlow()) {
      replace(
          hidden.getIcmpQuotedFlowBuilder(),
          QuotedFlow.SRC_ADDR_FIELD_NUMBER,
          QuotedFlow.DST_ADDR_FIELD_NUMBER);
    }
    if (told != Pseudonyms.PSEUDONYMS_BOTH_VALUE && flow.hasRouted()) {
      replace(
          hidden.getRoutedBuilder(),
          Routed.NEXT_HOP_FIELD_NUMBER,
          Routed.BGP_NEXT_HOP_FIELD_NUMBER,
          Routed.POST_NAT_SRC_ADDR_FIELD_NUMBER,
          Routed.POST_NAT_DST_ADDR_FIELD_NUMBER);
    }
    if (!privacy.names()) {
      hidden.clearServerName().clearDnsQuery();
      if (hidden.hasRouted()) {
        hidden.getRoutedBuilder().clearSrcMac().clearDstMac();
      }
    }
    return hidden.build();
  }

  private NatEvent hide(NatEvent event) {
    NatEvent.Builder hidden = event.toBuilder();
    replace(
        hidden,
        NatEvent.SRC_ADDR_FIELD_NUMBER,
        NatEvent.DST_ADDR_FIELD_NUMBER,
        NatEvent.POST_SRC_ADDR_FIELD_NUMBER,
        NatEvent.POST_DST_ADDR_FIELD_NUMBER);
    return privacy.names() ? hidden.build() : hidden.clearUserName().build();
  }

  private void replace(Message.Builder of, int... fields) {
    for (int number : fields) {
      FieldDescriptor field = of.getDescriptorForType().findFieldByNumber(number);
      of.setField(field, pseudonym((ByteString) of.getField(field)));
    }
  }

  /** None stays none. */
  private ByteString pseudonym(ByteString address) {
    if (address.isEmpty()) {
      return address;
    }
    ByteString pseudonym = known.get(address);
    if (pseudonym == null) {
      pseudonym = ByteString.copyFrom(pan.pseudonym(address.toByteArray()));
      known.put(address, pseudonym);
    }
    return pseudonym;
  }
}
