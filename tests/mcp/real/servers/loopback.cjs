// Loaded before a server with `node --require`: it listens on the loopback only, on a
// port that the system chooses, and prints the port as the only line of its output.
const net = require("node:net");

console.log = console.error;

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  if (Number.isInteger(Number(port))) {
    this.once("listening", () => process.stdout.write(`${this.address().port}\n`));
    const done = rest.filter((each) => typeof each === "function");
    return listen.call(this, Number(process.env.REAL_PORT || 0), "127.0.0.1", ...done);
  }
  return listen.call(this, port, ...rest);
};
