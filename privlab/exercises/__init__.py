"""The checks of the labs' exercises, one file a lab. A check takes an answer and yields what is wrong with it; nothing means right."""

from privlab.exercises import (
    lab_00,
    lab_01,
    lab_02,
    lab_03,
    lab_04,
    lab_05,
    lab_06,
    lab_07,
    lab_08,
    lab_09,
    lab_10,
    lab_11,
)

CHECKS = (
    lab_00.CHECKS
    | lab_01.CHECKS
    | lab_02.CHECKS
    | lab_03.CHECKS
    | lab_04.CHECKS
    | lab_05.CHECKS
    | lab_06.CHECKS
    | lab_07.CHECKS
    | lab_08.CHECKS
    | lab_09.CHECKS
    | lab_10.CHECKS
    | lab_11.CHECKS
)
