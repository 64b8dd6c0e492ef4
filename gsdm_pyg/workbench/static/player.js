// Frames at a pace that can be seen: some samplers are faster than the screen.

const PAUSE = 33; // milliseconds between two frames
const MOST_LATE = 10; // frames that may wait; of more, every second one is skipped

export class Player {
  constructor(show) {
    this.show = show;
    this.waiting = [];
    this.running = false;
  }

  push(frame) {
    this.waiting.push(frame);
    if (!this.running) this.next();
  }

  stop() { this.waiting = []; }

  next() {
    this.running = this.waiting.length > 0;
    if (!this.running) return;
    const late = this.waiting.length > MOST_LATE;
    if (late) this.waiting = this.waiting.filter((frame, i) => i % 2 || frame.event === "done");
    this.show(this.waiting.shift());
    setTimeout(() => this.next(), PAUSE);
  }
}
