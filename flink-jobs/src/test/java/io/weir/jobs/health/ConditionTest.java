package io.weir.jobs.health;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.weir.jobs.alerts.AlertMessage;
import io.weir.jobs.health.Condition.Finding;
import io.weir.proto.Severity;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ConditionTest {
  private final Condition condition = new Condition(Reason.PROBE_SILENT);
  private final List<AlertMessage> told = new ArrayList<>();

  private void twice(boolean holds, long began, long now) {
    for (int check = 0; check < 2; check++) {
      if (holds) {
        Finding finding = new Finding(began, Severity.SEVERITY_WARNING, "Silent.", Map.of());
        condition.holds("alpha", finding, now + check, told::add);
      } else {
        condition.holdsNot(now + check, told::add);
      }
    }
  }

  /** Unread messages interrupt a silence, and then none of them closes an interval. */
  @Test
  void anAlertThatOpensAgainUnderItsIdGoesOnWithItsVersions() {
    twice(true, 10, 100);
    twice(false, 0, 200);
    twice(true, 10, 300);
    twice(false, 0, 400);
    twice(true, 350, 500);
    assertEquals(List.of(1, 2, 3, 4, 1), told.stream().map(AlertMessage::version).toList());
    List<String> ids = told.stream().map(alert -> alert.alert().getId()).toList();
    assertEquals(4, Collections.frequency(ids, ids.get(0)));
    assertEquals(0, told.get(2).alert().getClosedMs());
  }
}
