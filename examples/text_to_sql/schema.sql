CREATE TABLE staff (name TEXT, team TEXT, city TEXT, age INTEGER, salary INTEGER);
INSERT INTO staff VALUES
  ('Ana',    'sales',   'Rome',   34, 4100),
  ('Ben',    'sales',   'Oslo',   28, 3300),
  ('Carla',  'support', 'Rome',   45, 2900),
  ('David',  'design',  'Paris',  31, 3900),
  ('Emma',   'design',  'Oslo',   52, 5200),
  ('Farid',  'support', 'Paris',  23, 2500),
  ('Grace',  'sales',   'Paris',  41, 4700),
  ('Hugo',   'legal',   'Rome',   58, 6100),
  ('Irene',  'legal',   'Oslo',   37, 5600),
  ('Jonas',  'support', 'Oslo',   29, 2700),
  ('Kira',   'sales',   'Oslo',   26, 3100),
  ('Luca',   'design',  'Rome',   48, 4400);
