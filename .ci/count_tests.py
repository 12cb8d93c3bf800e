"""Counts the test cases of a Bazel run from its build events.

Usage: count_tests.py EVENTS, the file that --build_event_json_file names.

The last line printed is "N passed, N failed, N skipped".  A case is a testcase
of a test.xml; a test target that failed without one counts as one failed case,
and a target left out because it needs what this machine lacks as one skipped
case.  The exit status is 1 if a case failed or none passed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def count_cases(xml_path):
    """Returns (passed, failed, skipped) of one test.xml."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(xml_path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_result(result):
    """Returns (passed, failed, skipped) of one testResult event."""
    passed = failed = skipped = 0
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml":
            path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
            try:
                passed, failed, skipped = count_cases(path)
            except (OSError, ElementTree.ParseError) as error:
                print("%s: %s" % (path, error))
    # A crash or a timeout leaves no failed case behind, or no file at all.
    if result["status"] != "PASSED" and failed == 0:
        failed = 1
    return passed, failed, skipped


def main():
    total = [0, 0, 0]
    failed_labels = set()
    kinds = {}  # "cc_test rule" and the like, by label.
    with open(sys.argv[1], encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            ident = event.get("id", {})
            if "targetConfigured" in ident:
                kind = event.get("configured", {}).get("targetKind", "")
                kinds[ident["targetConfigured"]["label"]] = kind
            elif "testResult" in ident:
                counts = count_result(event["testResult"])
                total = [a + b for a, b in zip(total, counts)]
                if counts[1]:
                    failed_labels.add(ident["testResult"]["label"])
            elif "targetCompleted" in ident:
                label = ident["targetCompleted"]["label"]
                if event.get("aborted", {}).get("reason") == "SKIPPED":
                    total[2] += kinds.get(label, "").endswith("_test rule")
                elif "aborted" in event or not event.get("completed", {}).get("success"):
                    total[1] += 1
                    failed_labels.add(label)
    for label in sorted(failed_labels):
        print("FAILED: " + label)
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
