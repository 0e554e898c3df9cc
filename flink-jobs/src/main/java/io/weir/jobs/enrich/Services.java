package io.weir.jobs.enrich;

import io.weir.proto.Flow;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;

/**
 * The ports registered for services: {@code schemas/services.csv}, from which ClickHouse also takes
 * their names.
 */
final class Services {
  private static final int TCP = 6;
  private static final int UDP = 17;
  private static final int SCTP = 132;

  private static final Services REGISTERED = new Services();

  private final BitSet tcp = new BitSet();
  private final BitSet udp = new BitSet();
  private final BitSet sctp = new BitSet();

  private Services() {
    try (BufferedReader lines =
        new BufferedReader(
            new InputStreamReader(
                Services.class.getResourceAsStream("/services.csv"), StandardCharsets.UTF_8))) {
      lines.lines().skip(1).forEach(this::add);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void add(String line) {
    String[] cells = line.split(",", 3);
    of(Integer.parseInt(cells[1])).set(Integer.parseInt(cells[0]));
  }

  private BitSet of(int protocol) {
    return switch (protocol) {
      case TCP -> tcp;
      case UDP -> udp;
      case SCTP -> sctp;
      default -> throw new IllegalArgumentException("no services of protocol " + protocol);
    };
  }

  /**
   * The port that identifies the record's service: the destination's if it is registered; else the
   * source's if that is registered and the initiator is unknown; else 0.
   */
  static int of(Flow flow) {
    int protocol = flow.getProtocol();
    if (protocol != TCP && protocol != UDP && protocol != SCTP) {
      return 0;
    }
    BitSet registered = REGISTERED.of(protocol);
    if (registered.get(flow.getDstPort())) {
      return flow.getDstPort();
    }
    return flow.getInitiatorGuess() && registered.get(flow.getSrcPort()) ? flow.getSrcPort() : 0;
  }
}
