package io.weir.jobs.indicators;

import io.weir.jobs.window.FlowCursor;

/** The protocols by which hosts are counted: TCP, UDP, ICMP of both versions. */
final class Kind {
  static final int TCP = 0;
  static final int UDP = 1;
  static final int ICMP = 2;
  static final int COUNT = 3;

  private Kind() {}

  /** The kind of a protocol, -1 if it has none. */
  static int of(int protocol) {
    return switch (protocol) {
      case 6 -> TCP;
      case 17 -> UDP;
      case 1, 58 -> ICMP;
      default -> -1;
    };
  }

  /** Whether the protocol shows that the flow's source is the initiator. */
  static boolean begins(FlowCursor flow, int kind) {
    return !flow.isBack()
        && switch (kind) {
          case TCP -> !flow.isGuess();
          case UDP -> true;
          default -> !flow.hasIcmpErrors();
        };
  }
}
