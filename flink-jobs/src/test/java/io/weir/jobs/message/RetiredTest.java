package io.weir.jobs.message;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class RetiredTest {
  private static final long HOUR = Retired.AFTER_MS;

  private final Retired retired = new Retired();

  private List<String> among(long at, String... listed) {
    return retired.among(List.of("alpha", "beta"), List.of(listed), at);
  }

  @Test
  void aProbeThatListsHaveLackedForAnHourIsRemoved() {
    assertEquals(List.of(), among(0, "alpha", "beta"));
    assertEquals(List.of(), among(5, "beta"));
    assertEquals(List.of(), among(HOUR + 4, "beta", "gamma"));
    assertEquals(List.of("alpha"), among(HOUR + 5, "beta"));
  }

  @Test
  void aProbeThatIsListedAgainIsNot() {
    among(5, "beta");
    among(HOUR, "alpha", "beta");
    assertEquals(List.of(), among(HOUR + 5, "beta"));
    assertEquals(List.of(), among(2 * HOUR + 4, "beta"));
    assertEquals(List.of("alpha"), among(2 * HOUR + 5, "beta"));
  }

  @Test
  void noProbeIsRemovedWhileNoListArrives() {
    among(5, "alpha", "beta");
    assertEquals(List.of(), among(3 * HOUR, "alpha"));
    assertEquals(List.of(), among(3 * HOUR + 5, "alpha", "beta"));
  }
}
