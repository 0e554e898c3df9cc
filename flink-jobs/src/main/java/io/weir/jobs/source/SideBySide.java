package io.weir.jobs.source;

import io.weir.jobs.message.RawMessage;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;

/**
 * Lets the source read the partitions of a backlog side by side, by the times at which the broker
 * received their messages: it pauses those that are ahead. Windows then hold about as much as when
 * the messages came. A partition without messages is waited for at most {@link #IDLE}, and live
 * reading never waits: whatever it has read has just come.
 *
 * <p>The watermarks serve this purpose only; windows follow {@link
 * io.weir.jobs.message.StreamClock}.
 */
public final class SideBySide implements WatermarkGenerator<RawMessage> {
  /** How far ahead of the last partition another may be. */
  private static final Duration AHEAD = Duration.ofSeconds(5);

  /** How long a partition without messages holds the others. */
  private static final Duration IDLE = Duration.ofSeconds(5);

  /**
   * How often subtasks tell each other how far they are. At each time the source may read another
   * {@link #AHEAD}: it reads an hour in 36 s at best.
   */
  private static final Duration TELL = Duration.ofMillis(50);

  /** Steps of the watermark: each is passed through all operators. */
  private static final long STEP_MS = 500;

  private long newest = Long.MIN_VALUE / 2;

  private SideBySide() {}

  /** The strategy of the source. */
  public static WatermarkStrategy<RawMessage> strategy() {
    return WatermarkStrategy.<RawMessage>forGenerator(context -> new SideBySide())
        .withIdleness(IDLE)
        .withWatermarkAlignment("messages", AHEAD, TELL);
  }

  @Override
  public void onEvent(RawMessage message, long timestamp, WatermarkOutput output) {
    long came =
        message.appended() == RawMessage.NO_TIME ? System.currentTimeMillis() : message.appended();
    if (came - newest >= STEP_MS) {
      newest = came;
      output.emitWatermark(new Watermark(came));
    }
  }

  @Override
  public void onPeriodicEmit(WatermarkOutput output) {
    // Each message has set the watermark.
  }
}
