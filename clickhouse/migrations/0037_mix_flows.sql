-- The direction in which a flow counts that the probe saw from its answer on.

ALTER TABLE mixes
    MODIFY COLUMN flows UInt64 COMMENT 'Flows that began in the window, each in the direction in which its source sent, or in that of the answer if the source sent nothing yet; summed over windows, they give all flows';
