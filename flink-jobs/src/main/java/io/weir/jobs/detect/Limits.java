package io.weir.jobs.detect;

import io.weir.proto.Rule;
import io.weir.proto.Severity;
import java.util.HashMap;
import java.util.Map;

/**
 * What counts for one subject: the parameters of a reason, or those that a rule put in their place.
 */
final class Limits {
  /** Gives the limits of a reason for the subject that is judged. */
  interface Source {
    Limits of(Reason reason);
  }

  private final Map<String, Double> values = new HashMap<>();
  private final Rule rule;

  /** The parameters of the reason, with those of the rule in their place. */
  Limits(Reason reason, Rule rule) {
    this.rule = rule;
    for (Parameter parameter : reason.parameters()) {
      double said = rule.getParametersOrDefault(parameter.name(), parameter.value());
      // A rule of a later release may say more than this one takes.
      values.put(parameter.name(), Math.max(parameter.least(), Math.min(parameter.most(), said)));
    }
  }

  /** The value of a parameter. */
  double get(String name) {
    return values.get(name);
  }

  /** Whether nothing is to be told. */
  boolean isOff() {
    return rule.getOff();
  }

  /** The severity that is to be told of what the detector calls {@code found}. */
  Severity severity(Severity found) {
    return rule.getSeverity() == Severity.SEVERITY_UNSPECIFIED ? found : rule.getSeverity();
  }
}
