"""Runs a server and one agent in a network of their own, in which only the loopback is up.

usage: unshare --net python3 in_namespace.py PLAN.json

PLAN: {"server": [argv], "agent": [argv], "folder", "environment", "timeout_s"}. In the agent's argv and environment
"@URL@" is the server's address. Prints one JSON object: the agent's exit status and what it printed, and the server's
log. Nothing of the agent can reach beyond this machine, whatever it tries.
"""

import json
import os
import queue
import re
import subprocess
import sys
import threading

START_S = 30


def main(plan):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    server = subprocess.Popen(
        plan["server"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = []
    url = queue.Queue()

    def read_log():  # all the time: a full pipe would stop the server
        for line in server.stdout:
            lines.append(line)
            if found := re.match(r"listening on (http://\S+)", line):
                url.put(found.group(1))

    reader = threading.Thread(target=read_log, daemon=True)
    reader.start()
    try:
        address = url.get(timeout=START_S)
    except queue.Empty:
        server.kill()
        sys.exit("the server did not start:\n" + "".join(lines))

    def filled(text):
        return text.replace("@URL@", address)

    try:
        done = subprocess.run(
            [filled(word) for word in plan["agent"]],
            cwd=plan["folder"],
            env={"PATH": os.environ["PATH"], **{k: filled(v) for k, v in plan["environment"].items()}},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=plan["timeout_s"],
        )
        result = {"status": done.returncode, "output": done.stdout, "errors": done.stderr}
    except subprocess.TimeoutExpired as late:
        result = {"status": None, "output": str(late.stdout), "errors": str(late.stderr)}
    server.terminate()
    server.wait(timeout=30)
    reader.join(timeout=10)
    result["log"] = "".join(lines)
    print(json.dumps(result))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as plan_file:
        main(json.load(plan_file))
