"use strict";
// Starts `warpwright debug --dap PORT PROGRAM` for each session, passes the Debug Adapter Protocol's messages on, and shows what the
// program prints in the debug console.
const vscode = require("vscode");
const net = require("net");
const { spawn } = require("child_process");

const RETRY_MS = 50;

/** A port of this machine that is free now. */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** The command line of a launch configuration. */
function commandOf(configuration, port) {
  const chosen = configuration.warpwright || ["warpwright"];
  const words = Array.isArray(chosen) ? [...chosen] : [chosen];
  words.push("debug", "--dap", String(port));
  if (configuration.gpu) words.push("--gpu", configuration.gpu);
  return [...words, configuration.program, ...(configuration.args || [])];
}

/** One session: the process (none for `attach`) and the connection to it, as an adapter within the editor. */
class Adapter {
  constructor(configuration) {
    this.configuration = configuration;
    this.emitter = new vscode.EventEmitter();
    this.onDidSendMessage = this.emitter.event;
    this.waiting = []; // messages of the editor before the connection
    this.unanswered = new Map(); // requests by number
    this.buffer = Buffer.alloc(0);
    this.over = false;
    this.why = "the program has ended";
    this.begin().catch((error) => this.fail(error.message));
  }

  async begin() {
    let port = this.configuration.port;
    if (this.configuration.request !== "attach") {
      port = await freePort();
      const [command, ...words] = commandOf(this.configuration, port);
      this.process = spawn(command, words, {
        cwd: this.configuration.cwd || undefined,
        env: { ...process.env, PYTHONUNBUFFERED: "1", ...(this.configuration.env || {}) },
        stdio: ["ignore", "pipe", "pipe"],
      });
      this.process.stdout.on("data", (data) => this.output("stdout", data));
      this.process.stderr.on("data", (data) => this.output("stderr", data));
      this.process.on("error", (error) =>
        this.fail(`cannot start ${command}: ${error.message}. Name the command in "warpwright" of launch.json.`),
      );
      // After "close", everything that the program printed has been passed on.
      this.process.on("close", (code) => this.exited(code));
    }
    this.connect(port);
  }

  /** Connect as soon as the program waits for an editor: a native program does when it first uses the GPU. */
  connect(port) {
    if (this.over) return;
    const socket = net.createConnection(port, "127.0.0.1");
    socket.once("connect", () => {
      this.socket = socket;
      socket.on("data", (data) => this.received(data));
      socket.on("close", () => { if (!this.process) this.end(); });
      socket.on("error", () => {});
      for (const message of this.waiting.splice(0)) this.handleMessage(message);
    });
    socket.once("error", (error) => {
      if (this.socket) return;
      if (this.process) setTimeout(() => this.connect(port), RETRY_MS);
      else this.fail(`nothing waits at port ${port}: start warpwright debug --dap ${port} PROGRAM first (${error.code})`);
    });
  }

  handleMessage(message) {
    if (message.type === "request") this.unanswered.set(message.seq, message.command);
    if (this.over) {
      this.refuse(this.why);
    } else if (!this.socket) {
      this.waiting.push(message);
    } else if (!this.socket.destroyed) {
      const data = Buffer.from(JSON.stringify(message), "utf8");
      this.socket.write(`Content-Length: ${data.length}\r\n\r\n`);
      this.socket.write(data);
    }
  }

  received(data) {
    this.buffer = Buffer.concat([this.buffer, data]);
    for (;;) {
      const end = this.buffer.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = Number(/Content-Length: *(\d+)/i.exec(this.buffer.toString("latin1", 0, end))[1]);
      if (this.buffer.length < end + 4 + length) return;
      const message = JSON.parse(this.buffer.toString("utf8", end + 4, end + 4 + length));
      this.buffer = this.buffer.subarray(end + 4 + length);
      if (message.type === "response") this.unanswered.delete(message.request_seq);
      // What the program prints last comes before the end of the session.
      if (message.type === "event" && this.process && ["exited", "terminated"].includes(message.event)) continue;
      this.emitter.fire(message);
    }
  }

  output(category, data) {
    // The line that tells a person at a terminal to connect is for nobody here.
    const output = data.toString("utf8").replace(/^waiting for an editor at .*\n/, "");
    if (output) this.event("output", { category, output });
  }

  event(name, body) {
    this.emitter.fire({ type: "event", seq: 0, event: name, body });
  }

  exited(code) {
    if (this.over) return;
    this.event("exited", { exitCode: code === null ? 1 : code });
    this.refuse(this.why);
    this.end();
  }

  fail(text) {
    if (this.over) return;
    this.why = text;
    this.output("stderr", `${text}\n`);
    this.refuse(text);
    this.end();
  }

  /** Answer what nobody else will answer. */
  refuse(text) {
    for (const [number, command] of this.unanswered) {
      const success = ["disconnect", "terminate"].includes(command);
      this.emitter.fire({ type: "response", seq: 0, request_seq: number, command, success, message: text });
    }
    this.unanswered.clear();
  }

  end() {
    if (this.over) return;
    this.over = true;
    this.event("terminated", {});
  }

  dispose() {
    this.over = true;
    if (this.socket) this.socket.destroy();
    if (this.process && this.process.exitCode === null) this.process.kill();
  }
}

/** F5 without a configuration debugs the file that is shown. */
const configurations = {
  resolveDebugConfiguration(folder, configuration) {
    if (!configuration.type && !configuration.request && !configuration.name) {
      const shown = vscode.window.activeTextEditor;
      if (shown && shown.document.languageId === "python") {
        Object.assign(configuration, { type: "warpwright", request: "launch", name: "Kernels of this file", program: "${file}" });
      }
    }
    if (configuration.request === "launch" && !configuration.program) {
      return vscode.window.showErrorMessage('launch.json: "program" is missing: a Python file or a program built with nvcc').then(() => undefined);
    }
    return configuration;
  },
};

function activate(context) {
  context.subscriptions.push(
    vscode.debug.registerDebugConfigurationProvider("warpwright", configurations),
    vscode.debug.registerDebugAdapterDescriptorFactory("warpwright", {
      createDebugAdapterDescriptor: (session) => new vscode.DebugAdapterInlineImplementation(new Adapter(session.configuration)),
    }),
  );
}

module.exports = { activate, deactivate() {} };
