package io.weir.jobs.source;

/** The kinds of topics that jobs read; the rest of a topic's name is the probe's. */
public enum TopicKind {
  /** {@code weir.flows.<probe>}: FlowMessage. */
  FLOWS("weir.flows."),
  /** {@code weir.counters.<probe>}: CounterMessage. */
  COUNTERS("weir.counters."),
  /** {@code weir.alerts.<probe>}: Alert. */
  ALERTS("weir.alerts.");

  private final String prefix;

  TopicKind(String prefix) {
    this.prefix = prefix;
  }

  /** The prefix of the topic's name. */
  public String prefix() {
    return prefix;
  }

  /** The kind of {@code topic}, null for another topic. */
  public static TopicKind of(String topic) {
    for (TopicKind kind : values()) {
      if (topic.startsWith(kind.prefix)) {
        return kind;
      }
    }
    return null;
  }
}
