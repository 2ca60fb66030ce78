// State, files and calls of a function of this program. Install the package of `make sdk`, start `fumehood serve`, then
// run `node examples/typescript_client.mjs`. The model is a script, so that the example needs no key.
import { Sandbox } from "fumehood";

const prices = { apples: 2, pears: 3 };
const tools = { price: ({ fruit }) => prices[fruit] ?? Promise.reject(new RangeError(`no ${fruit}`)) };

// What a model wrote, step by step.
const steps = [
  "import csv\norder = list(csv.DictReader(open('order.csv')))",
  "price(fruit='plums')",
  "sum(price(fruit=row['fruit']) * int(row['count']) for row in order)",
];

const sandbox = await Sandbox.create();
try {
  await sandbox.files.write("order.csv", "fruit,count\napples,6\npears,10\n");
  for (const step of steps) {
    const result = await sandbox.run(step, { tools });
    console.log(result.exception?.value ?? result.text);   // at last 42
  }
} finally {
  await sandbox.close();
}
